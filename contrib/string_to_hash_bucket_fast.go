package contrib

import (
	"encoding/binary"

	"github.com/onward-ml/onward/tensor"
)

// StringToHashBucketFast maps strings to buckets by std::hash of GNU's C++ library on 64-bit
// machines.
var _ = register("StringToHashBucketFast", "input:string, num_buckets:int64", "output:int64",
	always(func(c *call) ([]tensor.Value, error) { return hashBuckets(c, hashGNU) }))

// hashGNU is _Hash_bytes of libstdc++ with its seed 0xc70f6907.
func hashGNU(s string) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := 0xc70f6907 ^ uint64(len(s))*m
	b := []byte(s)
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		h = (h ^ (k^k>>r)*m) * m
	}
	if len(b) > 0 {
		rest := uint64(0)
		for i, c := range b {
			rest |= uint64(c) << (8 * i)
		}
		h = (h ^ rest) * m
	}
	h = (h ^ h>>r) * m
	return h ^ h>>r
}
