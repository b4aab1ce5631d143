package contrib

import (
	"encoding/binary"
	"errors"

	"github.com/onward-ml/onward/tensor"
)

// StringToHashBucket maps strings to buckets by TensorFlow's Hash64.
var _ = register("StringToHashBucket", "input:string, num_buckets:int64", "output:int64",
	always(func(c *call) ([]tensor.Value, error) { return hashBuckets(c, hash64) }))

// hashBuckets returns the remainder of the hash of each string.
func hashBuckets(c *call, hash func(string) uint64) ([]tensor.Value, error) {
	buckets, err := one[int64](c, 1)
	if err != nil {
		return nil, err
	}
	if buckets == 0 {
		return nil, errors.New("num_buckets must not be 0")
	}
	in := c.strings(0)
	out, err := filled(c, 8, int64(0), len(in))
	if err != nil {
		return nil, err
	}
	for i, s := range in {
		out[i] = int64(hash(s) % uint64(buckets))
	}
	return values(shaped(out, c.tensor(0).Shape()...))
}

// hash64 is Hash64 of TensorFlow (core/platform/hash.cc) with the seed 0xDECAFCAFFE. An empty
// rest counts as a zero byte.
func hash64(s string) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := 0xDECAFCAFFE ^ uint64(len(s))*m
	b := []byte(s)
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		k ^= k >> r
		h = (h ^ k*m) * m
	}
	rest := uint64(0)
	for i, c := range b {
		rest |= uint64(c) << (8 * i)
	}
	h = (h ^ rest) * m
	h = (h ^ h>>r) * m
	return h ^ h>>r
}
