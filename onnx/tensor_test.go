package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// wantTensorError fails unless decoding and checking the tensor return a typed error that
// contains want.
func wantTensorError(t *testing.T, name string, p *Tensor, want string) {
	t.Helper()
	p.Name = "T"
	_, err := p.Decode(nil)
	var te *TensorError
	if !errors.As(err, &te) || te.Name != "T" {
		t.Errorf("%s: decode gives %v, want a *TensorError", name, err)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("%s: decode gives %q, want it to say %q", name, err, want)
	}
	b := NewModel("g")
	b.Input("x", Float).Output("y", Float).Initializer("T", p)
	b.Node("Neg", []string{"x"}, []string{"y"})
	if err := Check(b.Must(), nil); !errors.As(err, &te) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: check gives %v, want %q", name, err, want)
	}
}

func TestNegativeAndOverflowingDims(t *testing.T) {
	deep := make([]int64, 1025)
	for i := range deep {
		deep[i] = 1
	}
	for _, c := range []struct {
		name string
		p    *Tensor
		want string
	}{
		{"negative", &Tensor{DataType: Float, Dims: []int64{2, -1}, RawData: make([]byte, 8)}, "dim 1 is negative: -1"},
		{"two negative", &Tensor{DataType: Float, Dims: []int64{-2, -1}, RawData: make([]byte, 8)}, "dim 0 is negative: -2"},
		{"negative beside zero", &Tensor{DataType: Float, Dims: []int64{0, -1}}, "dim 1 is negative"},
		{"overflow", &Tensor{DataType: Float, Dims: []int64{1 << 32, 1 << 32}, RawData: []byte{}}, "overflows int64"},
		{"overflow to a small number", &Tensor{DataType: Uint8, Dims: []int64{1 << 32, 1 << 32, 1}, RawData: []byte{1}}, "overflows int64"},
		{"bytes overflow", &Tensor{DataType: Complex128, Dims: []int64{1 << 60}, RawData: make([]byte, 16)}, "in bytes overflows"},
		{"typed entries overflow", &Tensor{DataType: Complex64, Dims: []int64{1 << 56}, FloatData: make([]float32, 2)}, "needs"},
		{"rank 1025", &Tensor{DataType: Float, Dims: deep, RawData: make([]byte, 4)}, "rank 1025 exceeds the limit of 1024"},
		{"2^59 bytes without data", &Tensor{DataType: Uint8, Dims: []int64{1 << 59}}, "one and only one value field"},
	} {
		wantTensorError(t, c.name, c.p, c.want)
	}
	ok := &Tensor{DataType: Float, Dims: deep[:1024], RawData: make([]byte, 4)}
	if v, err := ok.Decode(nil); err != nil || v.Rank() != 1024 {
		t.Errorf("rank 1024: %v", err)
	}
}

func TestDataLength(t *testing.T) {
	for d := Float; d <= Float6E3M2; d++ {
		if d == String {
			continue
		}
		for _, n := range []int64{1, 2, 3, 4, 5, 7, 8, 9} {
			size, err := d.byteLen(n)
			if err != nil {
				t.Fatal(err)
			}
			if want := (n*int64(tensor.DType(d).Bits()) + 7) / 8; size != want {
				t.Errorf("%s: %d elements take %d bytes, want %d", d, n, size, want)
			}
			p := &Tensor{DataType: d, Dims: []int64{n}, RawData: make([]byte, size)}
			if v, err := p.Decode(nil); err != nil || int64(v.Len()) != n {
				t.Errorf("%s of %d: %v", d, n, err)
			}
			for _, wrong := range []int64{size - 1, size + 1} {
				p.RawData = make([]byte, wrong)
				want := "raw_data has"
				if wrong == 0 {
					want = "one and only one value field"
				}
				wantTensorError(t, d.String(), p, want)
			}
		}
	}
	for _, c := range []struct {
		name string
		p    *Tensor
	}{
		{"float_data short", &Tensor{DataType: Float, Dims: []int64{3}, FloatData: []float32{1}}},
		{"float_data long", &Tensor{DataType: Float, Dims: []int64{1}, FloatData: []float32{1, 2}}},
		{"complex64 odd", &Tensor{DataType: Complex64, Dims: []int64{2}, FloatData: []float32{1, 2, 3}}},
		{"int4 in int32_data", &Tensor{DataType: Int4, Dims: []int64{3}, Int32Data: []int32{1}}},
		{"int2 in int32_data", &Tensor{DataType: Int2, Dims: []int64{5}, Int32Data: []int32{1, 2, 3}}},
		{"float6e2m3 packed in int32_data", &Tensor{DataType: Float6E2M3, Dims: []int64{4}, Int32Data: []int32{1, 2, 3}}},
		{"float6e3m2 code 64 in int32_data", &Tensor{DataType: Float6E3M2, Dims: []int64{2}, Int32Data: []int32{63, 64}}},
		{"float6e3m2 code -1 in int32_data", &Tensor{DataType: Float6E3M2, Dims: []int64{1}, Int32Data: []int32{-1}}},
		{"strings", &Tensor{DataType: String, Dims: []int64{2}, StringData: []string{"a"}}},
		{"scalar of two", &Tensor{DataType: Int64, Int64Data: []int64{1, 2}}},
	} {
		wantTensorError(t, c.name, c.p, "needs")
	}
}

func TestRawAndTypedData(t *testing.T) {
	wantTensorError(t, "raw and float", &Tensor{DataType: Float, Dims: []int64{1}, RawData: make([]byte, 4),
		FloatData: []float32{1}}, "one and only one value field")
	wantTensorError(t, "two typed", &Tensor{DataType: Float, Dims: []int64{1}, FloatData: []float32{1},
		Int64Data: []int64{1}}, "one and only one value field")
	wantTensorError(t, "wrong field", &Tensor{DataType: Float, Dims: []int64{1}, DoubleData: []float64{1}},
		"should be stored in field float_data instead of double_data")
	wantTensorError(t, "raw strings", &Tensor{DataType: String, Dims: []int64{1}, RawData: []byte("a")},
		"should not be stored in raw_data")
	wantTensorError(t, "external and raw", &Tensor{DataType: Float, Dims: []int64{1}, DataLocation: LocationExternal,
		RawData: make([]byte, 4)}, "stored externally and should not have data field")
	wantTensorError(t, "location 7", &Tensor{DataType: Float, Dims: []int64{1}, DataLocation: 7,
		RawData: make([]byte, 4)}, "unknown data_location 7")
	wantTensorError(t, "segment",
		&Tensor{DataType: Float, Dims: []int64{1}, Segment: &Segment{0, 1}, RawData: make([]byte, 4)}, "segments")
}

func TestUndefinedDataType(t *testing.T) {
	wantTensorError(t, "undefined", &Tensor{Dims: []int64{1}, RawData: make([]byte, 4)}, "UNDEFINED")
	for _, d := range []DataType{29, 255, 256, 257, -1, math.MaxInt32, math.MinInt32} {
		wantTensorError(t, "unknown", &Tensor{DataType: d, Dims: []int64{1}, RawData: make([]byte, 4)},
			"unrecognized data_type")
	}
}

func sparse(nnz []int64, indexDims []int64, dims ...int64) *SparseTensor {
	n := indexDims[0]
	return &SparseTensor{Dims: dims,
		Values:  &Tensor{Name: "S", DataType: Uint8, Dims: []int64{n}, RawData: make([]byte, n)},
		Indices: &Tensor{DataType: Int64, Dims: indexDims, Int64Data: nnz}}
}

func TestSparseIndices(t *testing.T) {
	check := func(s *SparseTensor) error {
		b := NewModel("g")
		b.Input("x", Float).Output("y", Float).SparseInitializer("S", s)
		b.Node("Neg", []string{"x"}, []string{"y"})
		return Check(b.Must(), nil)
	}
	for _, s := range []*SparseTensor{
		sparse([]int64{0, 5}, []int64{2}, 2, 3),
		sparse([]int64{0, 0, 1, 2}, []int64{2, 2}, 2, 3),
		{Dims: []int64{3}, Values: &Tensor{Name: "S", DataType: Float, Dims: []int64{0}}},
	} {
		if err := check(s); err != nil {
			t.Error(err)
		}
		if _, err := s.Decode(nil); err != nil {
			t.Error(err)
		}
	}
	for name, s := range map[string]*SparseTensor{
		"past the end":           sparse([]int64{0, 6}, []int64{2}, 2, 3),
		"negative":               sparse([]int64{-1, 5}, []int64{2}, 2, 3),
		"unsorted":               sparse([]int64{5, 0}, []int64{2}, 2, 3),
		"twice":                  sparse([]int64{5, 5}, []int64{2}, 2, 3),
		"coordinate past":        sparse([]int64{0, 3}, []int64{1, 2}, 2, 3),
		"coordinate negative":    sparse([]int64{1, -1}, []int64{1, 2}, 2, 3),
		"coordinates unsorted":   sparse([]int64{1, 2, 0, 0}, []int64{2, 2}, 2, 3),
		"coordinates of rank 3":  sparse([]int64{0, 0, 0}, []int64{1, 3}, 2, 3),
		"dims overflow":          sparse([]int64{0}, []int64{1}, 1<<40, 1<<40),
		"dim negative":           sparse([]int64{0}, []int64{1}, -2, -3),
		"no values":              {Dims: []int64{2}},
		"no indices":             {Dims: []int64{2}, Values: &Tensor{Name: "S", DataType: Uint8, Dims: []int64{1}, RawData: []byte{1}}},
		"values of rank 2":       {Dims: []int64{2}, Values: &Tensor{Name: "S", DataType: Uint8, Dims: []int64{1, 1}, RawData: []byte{1}}, Indices: &Tensor{DataType: Int64, Dims: []int64{1}, Int64Data: []int64{1}}},
		"indices of another sum": {Dims: []int64{9}, Values: &Tensor{Name: "S", DataType: Uint8, Dims: []int64{1}, RawData: []byte{1}}, Indices: &Tensor{DataType: Int64, Dims: []int64{2}, Int64Data: []int64{1, 2}}},
		"indices of int32":       {Dims: []int64{9}, Values: &Tensor{Name: "S", DataType: Uint8, Dims: []int64{1}, RawData: []byte{1}}, Indices: &Tensor{DataType: Int32, Dims: []int64{1}, Int32Data: []int32{1}}},
	} {
		if err := check(s); err == nil {
			t.Errorf("%s: no error of Check", name)
		}
		if _, err := s.Decode(nil); err == nil {
			t.Errorf("%s: no error of Decode", name)
		}
	}
}

func TestZeroSizeDims(t *testing.T) {
	for d := Float; d <= Float6E3M2; d++ {
		for _, dims := range [][]int64{{0}, {3, 0}, {0, 1 << 20, 1 << 28}} {
			p := &Tensor{DataType: d, Dims: dims}
			v, err := p.Decode(nil)
			if err != nil || v.Len() != 0 || v.Rank() != len(dims) {
				t.Errorf("%s%v: %v", d, dims, err)
			}
			p.RawData = []byte{}
			if _, err := p.Decode(nil); err != nil {
				t.Errorf("%s%v with empty raw_data: %v", d, dims, err)
			}
		}
	}
	wantTensorError(t, "data", &Tensor{DataType: Float, Dims: []int64{0}, RawData: make([]byte, 4)},
		"0-element but contains data")
}

func TestStringBombs(t *testing.T) {
	// A million empty strings cost their headers, which the budget counts.
	data := bytes.Repeat([]byte{6<<3 | 2, 0}, 1<<20)
	if _, err := UnmarshalTensor(data, &ReadOptions{MaxMemory: 1 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error is %v, want ErrTooLarge", err)
	}
	p, err := UnmarshalTensor(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.DataType, p.Dims = String, []int64{1 << 20}
	if v, err := p.Decode(nil); err != nil || v.Len() != 1<<20 {
		t.Error(err)
	}
	p.Dims = []int64{1 << 40}
	wantTensorError(t, "dims claim more", p, "needs 1099511627776")
}

func TestDecodeTypedFields(t *testing.T) {
	for _, c := range []struct {
		p    *Tensor
		want []byte
	}{
		{&Tensor{DataType: Int8, Int32Data: []int32{-1, 127}}, []byte{0xff, 127}},
		{&Tensor{DataType: Uint8, Int32Data: []int32{255, 0}}, []byte{255, 0}},
		{&Tensor{DataType: Int16, Int32Data: []int32{-2}}, []byte{0xfe, 0xff}},
		{&Tensor{DataType: Uint16, Int32Data: []int32{0xfffe}}, []byte{0xfe, 0xff}},
		{&Tensor{DataType: Float16, Int32Data: []int32{0x3c00}}, []byte{0, 0x3c}},
		{&Tensor{DataType: BFloat16, Int32Data: []int32{0xbf80}}, []byte{0x80, 0xbf}},
		{&Tensor{DataType: Float8E4M3FN, Int32Data: []int32{0x7f}}, []byte{0x7f}},
		{&Tensor{DataType: Float8E8M0, Int32Data: []int32{0xff}}, []byte{0xff}},
		{&Tensor{DataType: Bool, Int32Data: []int32{0, 1, 2, -1, 256}}, []byte{0, 1, 1, 1, 1}},
		{&Tensor{DataType: Int32, Int32Data: []int32{-1}}, []byte{255, 255, 255, 255}},
		{&Tensor{DataType: Uint32, Uint64Data: []uint64{1}}, []byte{1, 0, 0, 0}},
		{&Tensor{DataType: Uint64, Uint64Data: []uint64{1}}, []byte{1, 0, 0, 0, 0, 0, 0, 0}},
		{&Tensor{DataType: Int64, Int64Data: []int64{-1}}, bytes.Repeat([]byte{255}, 8)},
		{&Tensor{DataType: Float, FloatData: []float32{1}}, []byte{0, 0, 0x80, 0x3f}},
		{&Tensor{DataType: Double, DoubleData: []float64{1}}, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
		{&Tensor{DataType: Complex64, Dims: []int64{1}, FloatData: []float32{1, 0}}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0}},
		{&Tensor{DataType: Uint4, Dims: []int64{3}, Int32Data: []int32{0x21, 0xf3}}, []byte{0x21, 0x03}},
		{&Tensor{DataType: Int2, Dims: []int64{5}, Int32Data: []int32{0xe4, 0xff}}, []byte{0xe4, 0x03}},
		{&Tensor{DataType: Float6E2M3, Int32Data: []int32{0x2d, 0x13, 0x3a, 0x25, 0x3f}}, []byte{0xed, 0xa4, 0x97, 0x3f}},
		{&Tensor{DataType: Float6E3M2, Int32Data: []int32{1, 2, 3}}, []byte{0x81, 0x30, 0}},
	} {
		if c.p.Dims == nil {
			_, n, _ := c.p.dataField()
			c.p.Dims = []int64{n}
		}
		for _, copied := range []bool{false, true} {
			v, err := c.p.Decode(&DecodeOptions{Copy: copied})
			if err != nil {
				t.Errorf("%s: %v", c.p.DataType, err)
			} else if !bytes.Equal(v.Bytes(), c.want) {
				t.Errorf("%s: % x, want % x", c.p.DataType, v.Bytes(), c.want)
			}
		}
	}
}

func TestDecodeRawAliasesWhereAligned(t *testing.T) {
	buf := memory.Aligned(64)
	for off := range 8 {
		raw := buf[off : off+16]
		p := &Tensor{DataType: Float, Dims: []int64{4}, RawData: raw}
		v, err := p.Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		aliases := &v.Bytes()[0] == &raw[0]
		if aliases != (off%4 == 0) {
			t.Errorf("offset %d: aliases %v", off, aliases)
		}
		if v, _ := p.Decode(&DecodeOptions{Copy: true}); &v.Bytes()[0] == &raw[0] {
			t.Errorf("offset %d: the copy aliases the data", off)
		}
	}
	raw := []byte{0, 2, 1, 255}
	v, err := (&Tensor{DataType: Bool, Dims: []int64{4}, RawData: raw}).Decode(nil)
	if err != nil || !bytes.Equal(v.Bytes(), []byte{0, 1, 1, 1}) || raw[1] != 2 {
		t.Errorf("bools: %v, input % x, %v", v.Bytes(), raw, err)
	}
	raw = []byte{0x21, 0xf3}
	v, err = (&Tensor{DataType: Uint4, Dims: []int64{3}, RawData: raw}).Decode(nil)
	if err != nil || !bytes.Equal(v.Bytes(), []byte{0x21, 0x03}) || raw[1] != 0xf3 {
		t.Errorf("uint4: % x, input % x, %v", v.Bytes(), raw, err)
	}
	for n, want := range [][]byte{1: {0x3f}, 2: {0xff, 0x0f}, 3: {0xff, 0xff, 0x03}, 4: {0xff, 0xff, 0xff}} {
		if n == 0 {
			continue
		}
		raw = bytes.Repeat([]byte{0xff}, len(want))
		v, err = (&Tensor{DataType: Float6E2M3, Dims: []int64{int64(n)}, RawData: raw}).Decode(nil)
		if err != nil || !bytes.Equal(v.Bytes(), want) || raw[len(raw)-1] != 0xff {
			t.Errorf("%d of float6e2m3: % x, want % x, input % x, %v", n, v.Bytes(), want, raw, err)
		}
	}
	if _, err := (&Tensor{DataType: Uint8, Dims: []int64{4}, RawData: []byte("abcd")}).
		Decode(&DecodeOptions{MaxBytes: 3}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("MaxBytes: %v", err)
	}
}

// This test checks that Decode and FromTensor are inverses for every type.
func TestFromTensorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := DataType(rapid.IntRange(1, int(Float6E3M2)).Draw(t, "type"))
		dims := rapid.SliceOfN(rapid.Int64Range(0, 4), 0, 4).Draw(t, "dims")
		n, err := elements(dims)
		if err != nil {
			t.Fatal(err)
		}
		p := &Tensor{DataType: d, Dims: dims}
		if d == String {
			p.StringData = rapid.SliceOfN(rapid.String(), int(n), int(n)).Draw(t, "strings")
		} else {
			size, _ := d.byteLen(n)
			p.RawData = rapid.SliceOfN(rapid.Byte(), int(size), int(size)).Draw(t, "raw")
		}
		v, err := p.Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := FromTensor(v).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		q, err := UnmarshalTensor(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := q.Decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !sameValue(v, w) {
			t.Fatalf("%s differs after writing", v)
		}
		if !slices.Equal(q.Dims, dims) {
			t.Fatalf("dims are %v, want %v", q.Dims, dims)
		}
	})
}

func TestMapsAndOptionals(t *testing.T) {
	values := []tensor.Value{
		&tensor.Map{Keys: tensor.Must(tensor.New([]int8{-1, 3})), Values: tensor.Must(tensor.New([]float32{1, 2}))},
		&tensor.Map{Keys: tensor.Must(tensor.New([]uint64{math.MaxUint64}, 1)), Values: tensor.Must(tensor.New([]string{"x"}, 1))},
		&tensor.Map{Keys: tensor.Must(tensor.New([]string{"a", "b"})), Values: tensor.Must(tensor.New([]int64{4, 5}))},
		&tensor.Optional{Elem: tensor.TensorType(tensor.TypeFloat32)},
		&tensor.Optional{Elem: tensor.TensorType(tensor.TypeInt64), Value: tensor.Scalar(int64(3))},
		&tensor.Sequence{Elem: tensor.SequenceOf(tensor.TensorType(tensor.TypeBool))},
		&tensor.Sequence{Elem: tensor.TensorType(tensor.TypeBool), Items: []tensor.Value{tensor.Scalar(true)}},
	}
	for _, v := range values {
		data, err := MarshalValue(v)
		if err != nil {
			t.Fatal(err)
		}
		w, err := UnmarshalValue(data, NewType(v.Type()), nil, nil)
		if err != nil {
			t.Errorf("%s: %v", v.Type(), err)
		} else if !sameValue(v, w) {
			t.Errorf("%s differs after writing", v.Type())
		}
	}
	bad := &Map{KeyType: Int8, Keys: []int64{128},
		Values: &Sequence{ElemType: KindTensor, Tensors: []*Tensor{{DataType: Float, FloatData: []float32{1}}}}}
	if _, err := bad.Decode(nil, nil); err == nil || !strings.Contains(err.Error(), "128") {
		t.Errorf("key out of range: %v", err)
	}
	two := &Sequence{ElemType: KindTensor, Sequences: []*Sequence{{}}}
	if _, err := two.Decode(nil, nil); err == nil {
		t.Error("sequence with values of another kind: no error")
	}
}

func TestNewTensorWritesLittleEndian(t *testing.T) {
	p, err := NewTensor("t", []int{1, 2}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.DataType != Int64 || binary.LittleEndian.Uint64(p.RawData[8:]) != 2 || !slices.Equal(p.Dims, []int64{2, 1}) {
		t.Errorf("tensor is %+v", p)
	}
	if p, _ := NewTensor("t", true); len(p.Dims) != 0 || !bytes.Equal(p.RawData, []byte{1}) {
		t.Errorf("tensor is %+v", p)
	}
	for _, bad := range []any{struct{}{}, nil, []any{1}} {
		if _, err := NewTensor("t", bad); err == nil {
			t.Errorf("NewTensor of %T: no error", bad)
		}
	}
	if _, err := NewTensor("t", []float32{1}, 2); err == nil {
		t.Error("NewTensor of one value for two elements: no error")
	}
}
