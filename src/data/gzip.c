#include "data/gzip.h"

#include <libdeflate.h>
#include <zlib.h>

enum {
    CHUNK = 1 << 30, // bytes per call; zlib counts in 32 bits
    TOO_MUCH = 100   // the stream has more than dst_bytes; not one of zlib's codes
};

static int is_gzip(const uint8_t *src, size_t bytes) {
    return bytes >= 2 && src[0] == 0x1f && src[1] == 0x8b;
}

typedef struct {
    int code; // zlib's code (Z_STREAM_END: the trailer was right), or TOO_MUCH
    size_t src_used, dst_made;
    const char *why; // zlib's explanation; may be NULL
} outcome;

// Inflates one gzip member after the other. Stops after the last member, at a failure, or if dst is too small.
static outcome inflate_by_zlib(const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes) {
    z_stream z = { 0 };
    outcome o = { .code = inflateInit2(&z, 15 + 16) }; // + 16: accept only a gzip header and trailer
    uint8_t beyond;
    while (o.code == Z_OK) {
        size_t src_left = src_bytes - o.src_used, dst_left = dst_bytes - o.dst_made;
        z.next_in = (Bytef *)(uintptr_t)(src + o.src_used); // zlib does not write to its input
        z.avail_in = (uInt)(src_left < CHUNK ? src_left : CHUNK);
        int probing = dst_left == 0; // one more byte shows whether the stream ends here
        z.next_out = probing ? &beyond : dst + o.dst_made;
        z.avail_out = probing ? 1 : (uInt)(dst_left < CHUNK ? dst_left : CHUNK);
        uInt in = z.avail_in, out = z.avail_out;
        o.code = inflate(&z, Z_NO_FLUSH);
        o.src_used += in - z.avail_in;
        if (probing && z.avail_out == 0) o.code = TOO_MUCH; // also if zlib says that the stream ends here
        if (!probing) o.dst_made += out - z.avail_out;
        if (o.code == Z_STREAM_END && is_gzip(src + o.src_used, src_bytes - o.src_used)) o.code = inflateReset(&z);
    }
    o.why = z.msg;
    inflateEnd(&z);
    return o;
}

static ls_status not_gzip(const char *path, const uint8_t *src, size_t bytes) {
    return ls_fail(LS_DATA, "%s: not a gzip file: it begins with bytes %02x %02x, expected 1f 8b; fetch the file again",
        path, src[0], bytes > 1 ? src[1] : 0);
}

static ls_status explain(const char *path, const outcome *o, size_t src_bytes, size_t dst_bytes) {
    switch (o->code) {
    case Z_BUF_ERROR:
        return ls_fail(LS_DATA,
            "%s: gzip stream is cut off: the file ends at byte %zu, after %zu of %zu inflated bytes; fetch "
            "the file again",
            path, src_bytes, o->dst_made, dst_bytes);
    case Z_DATA_ERROR:
        return ls_fail(LS_DATA,
            "%s: gzip stream is damaged at byte %zu of %zu (%s), after %zu inflated bytes; fetch the file "
            "again",
            path, o->src_used, src_bytes, o->why ? o->why : "no reason given", o->dst_made);
    default:
        return ls_fail(LS_DEVICE, "%s: zlib's inflate: %s (%d)", path, o->why ? o->why : zError(o->code), o->code);
    }
}

ls_status ls_gzip_peek(const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes) {
    if (!is_gzip(src, src_bytes)) return not_gzip(path, src, src_bytes);
    outcome o = inflate_by_zlib(src, src_bytes, dst, dst_bytes);
    if (o.dst_made == dst_bytes) return LS_SUCCESS;
    if (o.code == Z_STREAM_END) {
        return ls_fail(LS_DATA, "%s: inflates to %zu bytes, fewer than the header of %zu; fetch the file again", path,
            o.dst_made, dst_bytes);
    }
    return explain(path, &o, src_bytes, dst_bytes);
}

// Inflates a gzip file by libdeflate; returns 1 on success. If it fails, the caller lets zlib explain the fault.
static int inflate_fast(const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes) {
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    if (!decompressor) return 0;
    enum libdeflate_result result = LIBDEFLATE_SUCCESS;
    while (src_bytes > 0 && result == LIBDEFLATE_SUCCESS) {
        size_t used = 0, made = 0;
        result = libdeflate_gzip_decompress_ex(decompressor, src, src_bytes, dst, dst_bytes, &used, &made);
        src += used, src_bytes -= used;
        dst += made, dst_bytes -= made;
    }
    libdeflate_free_decompressor(decompressor);
    return result == LIBDEFLATE_SUCCESS && dst_bytes == 0;
}

ls_status ls_gzip_inflate(const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes) {
    if (!is_gzip(src, src_bytes)) return not_gzip(path, src, src_bytes);
    if (inflate_fast(src, src_bytes, dst, dst_bytes)) return LS_SUCCESS;
    outcome o = inflate_by_zlib(src, src_bytes, dst, dst_bytes);
    if (o.code == TOO_MUCH) {
        return ls_fail(LS_DATA,
            "%s: inflates to more than the %zu bytes that its header promises; fetch the file again", path, dst_bytes);
    }
    if (o.code != Z_STREAM_END) return explain(path, &o, src_bytes, dst_bytes);
    if (o.dst_made != dst_bytes) {
        return ls_fail(LS_DATA, "%s: inflates to %zu bytes, its header promises %zu; fetch the file again", path,
            o.dst_made, dst_bytes);
    }
    if (o.src_used != src_bytes) {
        return ls_fail(LS_DATA,
            "%s: %zu bytes stand after the end of the gzip stream at byte %zu; fetch the file again", path,
            src_bytes - o.src_used, o.src_used);
    }
    return LS_SUCCESS;
}
