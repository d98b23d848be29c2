"""The one part of the build that pyproject.toml cannot state: there are modules to compile.

``build_tools/native_build.py`` finds their sources itself; one name makes setuptools run it.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "kproducer._core.kernel.native._batch",
            ["kproducer/_core/kernel/native/_batch.pyx"],
            optional=True,
        )
    ]
)
