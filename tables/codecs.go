package tables

import (
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// Two codecs of Parquet allocate what the compressed bytes of a page say, not the size in its
// header. These decode no more than the destination holds, and are Parquet's if it is nil.
func init() {
	for c, decode := range map[compress.Compression]func(dst, src []byte) ([]byte, error){
		compress.Codecs.Zstd: decodeZstd, compress.Codecs.Snappy: decodeSnappy,
	} {
		codec, err := compress.GetCodec(c)
		if err != nil {
			panic(err)
		}
		compress.RegisterCodec(c, boundedCodec{codec.(compress.ErrorCodec), codec.(compress.StreamingCodec), decode})
	}
}

// boundedCodec is a codec with a decoder of its own for destinations that are not nil.
type boundedCodec struct {
	compress.ErrorCodec
	compress.StreamingCodec
	decode func(dst, src []byte) ([]byte, error)
}

// DecodeWithError implements compress.ErrorCodec.
func (c boundedCodec) DecodeWithError(dst, src []byte) ([]byte, error) {
	if dst == nil {
		return c.ErrorCodec.DecodeWithError(nil, src)
	}
	return c.decode(dst, src)
}

// Decode implements compress.Codec.
func (c boundedCodec) Decode(dst, src []byte) []byte {
	b, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err)
	}
	return b
}

var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
})

func decodeZstd(dst, src []byte) ([]byte, error) {
	d, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	return d.DecodeAll(src, dst[:0])
}

func decodeSnappy(dst, src []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	if n > cap(dst) {
		return nil, fmt.Errorf("%d bytes of Snappy stand for %d, want at most %d", len(src), n, cap(dst))
	}
	return snappy.Decode(dst, src)
}
