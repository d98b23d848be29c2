"""Recognises the full refresh of a declarative pipeline, and refuses it unless the user has accepted it.

``spark-pipelines`` keeps the checkpoint of a flow in ``STORAGE/_checkpoints/SINK/FLOW/NUMBER``. A full
refresh creates the folder with the next number: a new query, with a new id, which reads its source from the
beginning. Spark empties tables before; the records of a topic remain. The new id finds nothing that earlier
queries have committed, so all rows would become visible a second time. Every later run uses the folder with
the highest number. Source: ``org.apache.spark.sql.pipelines.graph.State`` and
``FlowSystemMetadata``.
"""

from __future__ import annotations

import re

from kproducer.spark.errors import FullRefreshError

#: A sink's name may have several parts, each of which is a folder.
_CHECKPOINT = re.compile(r".*/_checkpoints(?:/[^/]+){2,}/(\d+)/?")


def refuse_full_refresh(checkpoint: str, accepted: int) -> None:
    """Raise ``FullRefreshError`` if the flow has had more full refreshes than were accepted.

    Args:
        checkpoint: the query's ``checkpointLocation``.
        accepted: the option ``acceptedFullRefreshes``.
    """
    found = _CHECKPOINT.fullmatch(checkpoint)
    if found is not None and int(found[1]) > accepted:
        raise FullRefreshError.of(checkpoint, int(found[1]), accepted)
