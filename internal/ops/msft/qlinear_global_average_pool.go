package msft

import (
	"encoding/binary"
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// QLinearGlobalAveragePool returns the mean of every plane of quantized numbers
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearGlobalAveragePool).
type QLinearGlobalAveragePool struct{ ChannelsLast bool }

var _ = kit.Register(kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearGlobalAveragePool", Since: []int{1},
	In: "X:T, x_scale:float, x_zero_point:T, y_scale:float, y_zero_point:T", Out: "Y:T", Types: kit.Types{"T": byteTypes},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		return &QLinearGlobalAveragePool{a.Bool("channels_last", false)}
	})})

// Infer sets the spatial dimensions to 1.
func (p *QLinearGlobalAveragePool) Infer(c *ir.InferContext) error {
	if !p.ChannelsLast {
		return kit.InferGlobalPool(c)
	}
	t := c.Type(0)
	if s := t.Shape; s != nil {
		if len(s) < 2 {
			return fmt.Errorf("input has rank %d, want at least 2", len(s))
		}
		t.Shape = append([]ir.Dim{}, s...)
		for i := range s[1 : len(s)-1] {
			t.Shape[1+i] = ir.Known(1)
		}
	}
	c.SetOut(0, t)
	return nil
}

// Run sums integers.
func (p *QLinearGlobalAveragePool) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s := x.Shape()
	if len(s) < 2 {
		return fmt.Errorf("input has shape %v, want rank at least 2", s)
	}
	in, err := byteQuantOf(c, "X", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "Y", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	shape := append([]int{}, s...)
	n, ch, plane := s[0], s[1], kit.Product(s[2:])
	step, next := 1, plane // strides of elements and of channels
	if p.ChannelsLast {
		ch, plane = s[len(s)-1], kit.Product(s[1:len(s)-1])
		step, next = ch, 1
		for i := range s[1 : len(s)-1] {
			shape[1+i] = 1
		}
	} else {
		for i := range s[2:] {
			shape[2+i] = 1
		}
	}
	y, err := c.Output(0, x.DType(), shape...)
	if err != nil || y.Len() == 0 {
		return err
	}
	src, dst := x.Bytes(), y.Bytes()
	scale := in.scale / (float32(plane) * out.scale)
	kit.ReduceEach(c, n*ch, plane, func(i int) {
		at := i/ch*ch*plane + i%ch*next
		sum := int64(0)
		if step == 1 {
			sum = sumBytes(src[at:at+plane], in.signed) - int64(plane)*int64(in.zero)
		} else {
			for k := range plane {
				sum += int64(in.int(src[at+k*step]) - in.zero)
			}
		}
		v := [1]float32{float32(sum) * scale}
		out.quantize(dst[i:i+1], v[:])
	})
	return nil
}

// sumBytes returns the sum of the bytes as integers, eight at a time.
func sumBytes(b []byte, signed bool) int64 {
	const even = 0x00ff00ff00ff00ff
	var sum, flip int64
	var turn uint64
	if signed { // x + 128 is the byte with its top bit flipped
		turn, flip = 0x8080808080808080, 128
	}
	n := int64(len(b))
	for len(b) >= 8 {
		var lanes uint64 // four 16-bit sums, which cannot overflow for 128 pairs of bytes
		for range 128 {
			if len(b) < 8 {
				break
			}
			x := binary.LittleEndian.Uint64(b) ^ turn
			lanes += x&even + x>>8&even
			b = b[8:]
		}
		sum += int64(lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48)
	}
	for _, x := range b {
		sum += int64(x ^ byte(turn))
	}
	return sum - n*flip
}
