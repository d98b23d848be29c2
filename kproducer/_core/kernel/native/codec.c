/* The codecs of record batches, without the interpreter lock: the functions of the libraries that the Python packages
 * bring along, found when they are needed. Their types are declared here, as their headers are not installed; both
 * libraries, and zlib, keep them compatible. The caller compares what they make with what the packages make.
 *
 * Source of the frames' settings: `records/compression.py`.
 */
#include "codec.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { GZIP = 1, LZ4 = 3, ZSTD = 4 };

/* LZ4F_preferences_t, with its LZ4F_frameInfo_t first. */
typedef struct Lz4Preferences {
    int block_size, block_mode, has_content_checksum, frame_type;
    unsigned long long content_size;
    unsigned dictionary_id;
    int has_block_checksum;
    int level;
    unsigned auto_flush, favor_decompression, reserved[3];
} Lz4Preferences;

/* z_stream */
typedef struct Deflate {
    const unsigned char *next_in;
    unsigned available_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned available_out;
    unsigned long total_out;
    const char *message;
    void *state, *allocate, *release, *opaque;
    int data_type;
    unsigned long checksum, reserved;
} Deflate;

/* As many threads can compress with zstd without making a context each time. */
enum { SPARE_CONTEXTS = 4 };

typedef struct Codec {
    KpCodec base;
    int level;
    void *library;
    _Atomic(void *) spare[SPARE_CONTEXTS];
    Lz4Preferences preferences;
    size_t (*bound)(size_t, const void *);
    size_t (*compress)(void *, size_t, const void *, size_t, const void *);
    size_t (*compress_with)(void *, void *, size_t, const void *, size_t, int);
    void *(*create)(void);
    size_t (*destroy)(void *);
    unsigned (*is_error)(size_t);
    const char *(*version)(void);
    int (*deflate_init)(Deflate *, int, int, int, int, int, const char *, int);
    int (*deflate)(Deflate *, int);
    int (*deflate_end)(Deflate *);
} Codec;

static int64_t lz4_bound(KpCodec *base, int64_t size) {
    Codec *codec = (Codec *)base;
    return (int64_t)codec->bound((size_t)size, &codec->preferences);
}

static int64_t lz4_compress(KpCodec *base, unsigned char *target, int64_t room, const unsigned char *source, int64_t size) {
    Codec *codec = (Codec *)base;
    size_t made = codec->compress(target, (size_t)room, source, (size_t)size, &codec->preferences);
    return codec->is_error(made) ? -1 : (int64_t)made;
}

static int64_t zstd_bound(KpCodec *base, int64_t size) { return (int64_t)((Codec *)base)->bound((size_t)size, NULL); }

static int64_t zstd_compress(KpCodec *base, unsigned char *target, int64_t room, const unsigned char *source, int64_t size) {
    Codec *codec = (Codec *)base;
    void *context = NULL, *none = NULL;
    for (int i = 0; i < SPARE_CONTEXTS && !context; i++) context = atomic_exchange(&codec->spare[i], NULL);
    if (!context) context = codec->create();
    if (!context) return -1;
    size_t made = codec->compress_with(context, target, (size_t)room, source, (size_t)size, codec->level);
    for (int i = 0; i < SPARE_CONTEXTS && context; i++, none = NULL)
        if (atomic_compare_exchange_strong(&codec->spare[i], &none, context)) context = NULL;
    if (context) codec->destroy(context);
    return codec->is_error(made) ? -1 : (int64_t)made;
}

/* More than deflateBound() of any level; with the header and the trailer of a member. */
static int64_t gzip_bound(KpCodec *codec, int64_t size) {
    (void)codec;
    return size + (size >> 2) + (size >> 4) + 128;
}

static int64_t gzip_compress(KpCodec *base, unsigned char *target, int64_t room, const unsigned char *source, int64_t size) {
    enum { DEFLATED = 8, ONE_GZIP_MEMBER = 16 + 15, MEMORY = 8, FINISH = 4, STREAM_END = 1 };
    Codec *codec = (Codec *)base;
    Deflate stream;
    memset(&stream, 0, sizeof stream);
    if (codec->deflate_init(&stream, codec->level, DEFLATED, ONE_GZIP_MEMBER, MEMORY, 0, codec->version(), (int)sizeof stream))
        return -1;
    stream.next_in = source;
    stream.available_in = (unsigned)size;
    stream.next_out = target;
    stream.available_out = (unsigned)room;
    int result = codec->deflate(&stream, FINISH);
    codec->deflate_end(&stream);
    return result == STREAM_END ? (int64_t)stream.total_out : -1;
}

#define FIND(field, name) \
    if (!(*(void **)&codec->field = dlsym(codec->library, name))) goto failed

KpCodec *kp_codec_open(uint8_t type, int level, const char *path) {
    Codec *codec = calloc(1, sizeof *codec);
    if (!codec) return NULL;
    codec->base.type = type;
    codec->level = level;
    codec->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!codec->library) goto failed;
    if (type == LZ4) {
        enum { BLOCKS_OF_64_KIB = 4, INDEPENDENT = 1 };
        codec->preferences.block_size = BLOCKS_OF_64_KIB;
        codec->preferences.block_mode = INDEPENDENT;
        codec->preferences.level = level;
        codec->base.bound = lz4_bound;
        codec->base.compress = lz4_compress;
        FIND(bound, "LZ4F_compressFrameBound");
        FIND(compress, "LZ4F_compressFrame");
        FIND(is_error, "LZ4F_isError");
    } else if (type == ZSTD) {
        codec->base.bound = zstd_bound;
        codec->base.compress = zstd_compress;
        FIND(bound, "ZSTD_compressBound");
        FIND(compress_with, "ZSTD_compressCCtx");
        FIND(is_error, "ZSTD_isError");
        FIND(create, "ZSTD_createCCtx");
        FIND(destroy, "ZSTD_freeCCtx");
    } else if (type == GZIP) {
        codec->base.bound = gzip_bound;
        codec->base.compress = gzip_compress;
        FIND(version, "zlibVersion");
        FIND(deflate_init, "deflateInit2_");
        FIND(deflate, "deflate");
        FIND(deflate_end, "deflateEnd");
    } else {
        goto failed;
    }
    return &codec->base;
failed:
    kp_codec_close(&codec->base);
    return NULL;
}

void kp_codec_close(KpCodec *base) {
    Codec *codec = (Codec *)base;
    if (!codec) return;
    for (int i = 0; i < SPARE_CONTEXTS; i++)
        if (codec->spare[i]) codec->destroy(codec->spare[i]);
    if (codec->library) dlclose(codec->library);
    free(codec);
}
