package tables

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A selection lists elements of an array as runs of neighbours.
type selection []run

// A run is n elements from position at on, or n nulls if at is negative.
type run struct{ at, n int }

// add appends n elements from a position on, or n nulls if it is negative.
func (s *selection) add(at, n int) {
	if n == 0 {
		return
	}
	if k := len(*s) - 1; k >= 0 {
		if last := &(*s)[k]; at < 0 && last.at < 0 || last.at >= 0 && at == last.at+last.n {
			last.n += n
			return
		}
	}
	*s = append(*s, run{at, n})
}

func (s selection) len() (n int) {
	for _, r := range s {
		if n += r.n; n < 0 {
			panic("too many elements")
		}
	}
	return n
}

// moved returns the selection of the same elements, before which there are by more.
func (s selection) moved(by int) selection {
	s = slices.Clone(s)
	for i := range s {
		if s[i].at >= 0 {
			s[i].at += by
		}
	}
	return s
}

// positions returns a selection of single elements.
func positions(rows []int) (s selection) {
	for _, i := range rows {
		s.add(i, 1)
	}
	return s
}

// take returns the selected elements of an array, whose memory is of mem. Unlike the functions of
// Arrow's package compute it runs in the calling goroutine, where a panic for a damaged array can
// be recovered from. It panics for run-end encoded arrays, and for nulls of unions.
func take(mem memory.Allocator, a arrow.Array, s selection) arrow.Array {
	return array.MakeFromData(taker{mem}.data(a.Data(), s))
}

type taker struct{ mem memory.Allocator }

func (k taker) data(d arrow.ArrayData, s selection) arrow.ArrayData {
	n := s.len()
	inner := s.moved(d.Offset()) // in the buffers, and in children that have the length of d
	buffers, children := slices.Clone(d.Buffers()), slices.Clone(d.Children())
	null := slices.ContainsFunc(s, func(r run) bool { return r.at < 0 })
	nulls := 0
	if len(buffers) > 0 && (null || len(content(buffers[0])) > 0) {
		buffers[0] = k.bits(buffers[0], inner)
		nulls = n - bitutil.CountSetBits(buffers[0].Bytes(), 0, n)
	}
	t := d.DataType()
	if e, ok := t.(arrow.ExtensionType); ok {
		t = e.StorageType()
	}
	switch t := t.(type) {
	case *arrow.NullType:
		buffers, nulls = []*memory.Buffer{nil}, n
	case *arrow.BooleanType:
		buffers[1] = k.bits(buffers[1], inner)
	case *arrow.FixedSizeListType:
		size := int(t.Len())
		var parts selection
		for _, r := range inner {
			parts.add(max(r.at, -1)*size, product(r.n, size))
		}
		children[0] = k.data(children[0], parts)
	case arrow.FixedWidthDataType: // a dictionary has the width of its indices
		buffers[1] = k.bytes(buffers[1], inner, t.BitWidth()/8)
	case arrow.BinaryViewDataType:
		buffers[1] = k.bytes(buffers[1], inner, arrow.ViewHeaderSizeBytes)
	case arrow.UnionType:
		if null {
			panic(fmt.Sprintf("a value of type %s cannot be null", d.DataType()))
		}
		buffers[1] = k.bytes(buffers[1], inner, 1)
		if t.Mode() == arrow.DenseMode {
			buffers[2] = k.bytes(buffers[2], inner, 4) // the children stay
			break
		}
		for i, c := range children {
			children[i] = k.data(c, inner)
		}
	case *arrow.ListViewType, *arrow.LargeListViewType:
		width := t.(arrow.OffsetsDataType).OffsetTypeTraits().BytesRequired(1)
		buffers[1], buffers[2] = k.bytes(buffers[1], inner, width), k.bytes(buffers[2], inner, width)
	case arrow.OffsetsDataType:
		var parts selection
		if t.OffsetTypeTraits().BytesRequired(1) == 8 {
			buffers[1], parts = takeOffsets[int64](k, buffers[1], inner)
		} else {
			buffers[1], parts = takeOffsets[int32](k, buffers[1], inner)
		}
		if len(children) == 0 {
			buffers[2] = k.bytes(buffers[2], parts, 1)
		} else {
			children[0] = k.data(children[0], parts)
		}
	case *arrow.StructType:
		for i, c := range children {
			children[i] = k.data(c, inner)
		}
	default:
		panic(fmt.Sprintf("rows of type %s cannot be selected", d.DataType()))
	}
	if v, ok := d.Dictionary().(*array.Data); ok && v != nil {
		return array.NewDataWithDictionary(d.DataType(), n, buffers, nulls, 0, v)
	}
	return array.NewData(d.DataType(), n, buffers, children, nulls, 0)
}

func product(n, size int) int {
	if size > 0 && n > math.MaxInt/size {
		panic(fmt.Sprintf("%d elements of size %d are too many", n, size))
	}
	return n * size
}

// content returns the bytes of a buffer, nil if there is none.
func content(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}

// bits selects bits. Without a buffer all are set.
func (k taker) bits(b *memory.Buffer, s selection) *memory.Buffer {
	from, to := content(b), k.mem.Allocate(int(bitutil.BytesForBits(int64(s.len()))))
	at := 0
	for _, r := range s {
		switch {
		case r.at < 0:
		case len(from) == 0:
			bitutil.SetBitsTo(to, int64(at), int64(r.n), true)
		case r.n == 1:
			bitutil.SetBitTo(to, at, bitutil.BitIsSet(from, r.at))
		default:
			bitutil.CopyBitmap(from, r.at, r.n, to, at)
		}
		at += r.n
	}
	return memory.NewBufferBytes(to)
}

// bytes selects elements of a width in bytes. Nulls are zeros.
func (k taker) bytes(b *memory.Buffer, s selection, width int) *memory.Buffer {
	from, to := content(b), k.mem.Allocate(product(s.len(), width))
	at := 0
	for _, r := range s {
		if r.at >= 0 {
			copy(to[at:], from[r.at*width:(r.at+r.n)*width])
		}
		at += r.n * width
	}
	return memory.NewBufferBytes(to)
}

// takeOffsets selects values that are given by the offsets of their beginnings and ends. It
// returns the offsets of the selected ones, and what they refer to.
func takeOffsets[T int32 | int64](k taker, b *memory.Buffer, s selection) (*memory.Buffer, selection) {
	from := arrow.GetData[T](content(b))
	bytes := k.mem.Allocate((s.len() + 1) * len(arrow.GetBytes([]T{0})))
	to := arrow.GetData[T](bytes)
	var parts selection
	at := 0
	for _, r := range s {
		for i := range r.n {
			size := T(0)
			if r.at >= 0 {
				size = from[r.at+i+1] - from[r.at+i]
			}
			to[at+1] = to[at] + size
			at++
		}
		if r.at >= 0 {
			parts.add(int(from[r.at]), int(from[r.at+r.n]-from[r.at]))
		}
	}
	return memory.NewBufferBytes(bytes), parts
}
