package msft

import (
	"encoding/binary"
	"math/bits"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// MurmurHash3 returns the 32-bit MurmurHash3
// (https://github.com/aappleby/smhasher/wiki/MurmurHash3) of the little-endian bytes of
// every element, as uint32 if Positive is set, else as int32.
type MurmurHash3 struct {
	Positive bool
	Seed     uint32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MurmurHash3", Since: kit.Versions{1},
	In: "X:T1", Out: "Y:T2",
	Class: kit.ClassOther,
	Types: "T1: uint32 int32 uint64 int64 float double string; T2: uint32 int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &MurmurHash3{a.Bool("positive", true), uint32(a.Int("seed", 0))}
	}})

func (o *MurmurHash3) elem() tensor.DType {
	if o.Positive {
		return tensor.TypeUint32
	}
	return tensor.TypeInt32
}

// Infer implements [ir.Operator].
func (o *MurmurHash3) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, o.elem(), c.Shape(0))
	return nil
}

// Run implements [ir.Operator].
func (o *MurmurHash3) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, o.elem(), x.Shape()...)
	if err != nil {
		return err
	}
	dst := memory.FromRaw[uint32](y.Bytes())
	if x.DType() == tensor.TypeString {
		for i, s := range tensor.MustData[string](x) {
			if i%1024 == 0 && c.Err() != nil {
				return c.Err()
			}
			dst[i] = murmur3([]byte(s), o.Seed)
		}
		return nil
	}
	src, size := x.Bytes(), x.DType().Size() // 4 or 8
	c.Parallel(len(dst), kit.GrainCheap, func(lo, hi int) {
		for i, b := lo, src[lo*size:]; i < hi; i, b = i+1, b[size:] {
			h := murmurMix(o.Seed, binary.LittleEndian.Uint32(b))
			if size == 8 {
				h = murmurMix(h, binary.LittleEndian.Uint32(b[4:]))
			}
			dst[i] = murmurEnd(h, size)
		}
	})
	return nil
}

func murmur3(b []byte, h uint32) uint32 {
	n := len(b)
	for ; len(b) >= 4; b = b[4:] {
		h = murmurMix(h, binary.LittleEndian.Uint32(b))
	}
	if len(b) > 0 {
		var rest [4]byte
		copy(rest[:], b)
		h ^= murmurScramble(binary.LittleEndian.Uint32(rest[:]))
	}
	return murmurEnd(h, n)
}

func murmurScramble(k uint32) uint32 { return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593 }

// murmurMix adds a whole word to the hash.
func murmurMix(h, k uint32) uint32 {
	return bits.RotateLeft32(h^murmurScramble(k), 13)*5 + 0xe6546b64
}

// murmurEnd finishes the hash of n bytes.
func murmurEnd(h uint32, n int) uint32 {
	h ^= uint32(n)
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
