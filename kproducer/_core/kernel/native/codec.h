/* What the data plane needs of a codec. C11, without Python.h. */
#ifndef KPRODUCER_CODEC_H
#define KPRODUCER_CODEC_H

#include <stdint.h>

/* Any thread. */
typedef struct KpCodec KpCodec;
struct KpCodec {
    uint8_t type;       /* as in the attributes of a batch */
    int64_t (*bound)(KpCodec *codec, int64_t size);     /* the most bytes that so many become */
    /* How many bytes were written to `target`, which has `room` of them; -1: there is no memory. */
    int64_t (*compress)(KpCodec *codec, unsigned char *target, int64_t room, const unsigned char *source, int64_t size);
};

/* The codec of this type (1: gzip, 3: lz4, 4: zstd) with this level of the library's, by the functions in the shared
 * library `path` or those that it is linked with. NULL: they are not there. With an empty path, glibc looks in the program. */
KpCodec *kp_codec_open(uint8_t type, int level, const char *path);
void kp_codec_close(KpCodec *codec);

#endif
