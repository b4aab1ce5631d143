package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
	"github.com/onward-ml/onward/tensor"
)

// appendBuffer writes n vectors of each head after the first past ones of a buffer of
// capacity vectors, and stores the result, total vectors long, in output out. It returns
// the first past+n vectors. If from is not nil, past vector t of item b is read from
// batch item from(b, t); otherwise half allows reading half precision, see [attention.Extend].
func appendBuffer(c *ir.Call, out int, old *tensor.Tensor, v attention.HeadView[float32], from func(b, t int) int,
	batch, heads, past, n, capacity, total, dim int, half bool) (attention.HeadView[float32], kit.RealOutput[float32],
	error) {
	var y kit.RealOutput[float32]
	dtype := c.Tensor(0).DType()
	lengths := attention.Lengths(batch, past)
	dst, inPlace, err := attention.Extend(c, out, dtype, v, lengths, heads, n, total, past+n, dim,
		half && from == nil)
	if err != nil {
		return v, y, err
	}
	if !inPlace {
		data, err := kit.RealIn[float32](c, old)
		if err != nil {
			return v, y, err
		}
		if y, err = kit.RealMaybe[float32](c, out, dtype, batch, heads, total, dim); err != nil {
			return v, y, err
		}
		ir.Clear(c, y.Data)
		dst = attention.HeadsFirst(y.Data, heads, total, dim)
		if data != nil {
			attention.CopyHeads(c, dst, attention.HeadsFirst(data, heads, capacity, dim), batch, heads, 0, 0,
				min(capacity, total), dim)
		}
		attention.CopyHeads(c, dst, v, batch, heads, past, 0, n, dim)
	}
	if from == nil {
		return dst, y, nil
	}
	all, err := ir.ScratchOf[float32](c, batch*heads*(past+n)*dim)
	if err != nil {
		return v, y, err
	}
	read := attention.HeadsFirst(all, heads, past+n, dim)
	for b := range batch {
		for h := range heads {
			for t := range past {
				copy(read.At(b, h, t)[:dim], dst.At(from(b, t), h, t))
			}
			for t := past; t < past+n; t++ {
				copy(read.At(b, h, t)[:dim], dst.At(b, h, t))
			}
		}
	}
	return read, y, nil
}

// cacheBeams returns a function that maps past token t of item b to the batch item that
// holds it, according to cache_indirection, [batch, beam, length]. It returns nil if ct
// is nil, so that each item reads its own past. width is the number of beams if given.
func cacheBeams(c *ir.Call, width, ct *tensor.Tensor, batch, past int) (func(b, t int) int, error) {
	if ct == nil {
		return nil, nil
	}
	beams := 1
	if width != nil {
		var err error
		if beams, err = kit.ScalarInt(width, "beam_width"); err != nil {
			return nil, err
		}
	} else if ct.Rank() == 3 {
		beams = ct.Dim(1)
	}
	if beams < 1 || batch%beams != 0 || ct.Rank() != 3 || ct.Dim(0) != batch/beams || ct.Dim(1) != beams ||
		ct.Dim(2) < past {
		return nil,
			fail.Errorf("cache_indirection has shape %v, want [%d/beams beams length] with %d beams and a "+
				"length of %d or more", ct.Shape(), batch, beams, past)
	}
	ix, length := tensor.MustData[int32](ct), ct.Dim(2)
	for i, v := range ix {
		if i%max(1, length) < past && (v < 0 || int(v) >= beams) {
			return nil, fail.Errorf("cache_indirection holds %d, want 0 to %d", v, beams-1)
		}
	}
	return func(b, t int) int { return b/beams*beams + int(ix[b*length+t]) }, nil
}

// appendEach is like appendBuffer, but each batch item has its own past length. Vectors
// after the new ones are zeros, or those of the buffer if whole is set.
func appendEach(c *ir.Call, out int, old *tensor.Tensor, v attention.HeadView[float32], past []int, whole bool,
	heads, n, capacity, total, dim int) (attention.HeadView[float32], kit.RealOutput[float32], error) {
	data, err := kit.RealIn[float32](c, old)
	if err != nil {
		return v, kit.RealOutput[float32]{}, err
	}
	y, err := kit.RealMaybe[float32](c, out, c.Tensor(0).DType(), len(past), heads, total, dim)
	if err != nil {
		return v, y, err
	}
	dst := attention.HeadsFirst(y.Data, heads, total, dim)
	for b := range past {
		for h := range heads {
			kept := past[b]
			if whole {
				kept = min(capacity, total)
			}
			if kept > 0 {
				copy(dst.At(b, h, 0)[:kept*dim], data[(b*heads+h)*capacity*dim:])
			}
			for t := range n {
				copy(dst.At(b, h, past[b]+t)[:dim], v.At(b, h, t))
			}
			clear(dst.At(b, h, 0)[max(kept, past[b]+n)*dim : total*dim])
		}
	}
	return dst, y, nil
}
