package tensor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestConcat(t *testing.T) {
	a, b := Must(New([]float32{1, 2, 3, 4}, 2, 2)), Must(New([]float32{5, 6}, 2, 1))
	r, err := Concat(-1, a, b)
	if err != nil || Equal(r, Must(New([]float32{1, 2, 5, 3, 4, 6}, 2, 3))) != nil {
		t.Errorf("got %v, %v", r, err)
	}
	r, err = Concat(0, Must(New([]string{"a", "b"}, 1, 2)), Must(New([]string{}, 0, 2)),
		Must(New([]string{"c", "d", "e", "f"}, 2, 2)))
	if err != nil || !slices.Equal(MustData[string](r), []string{"a", "b", "c", "d", "e", "f"}) ||
		!slices.Equal(r.Shape(), []int{3, 2}) {
		t.Errorf("got %v, %v", r, err)
	}
	nibbles := func(n int) *Tensor { return Must(FromBytes(TypeInt4, []byte{0x21, 0x43}[:(n+1)/2], n)) }
	if r, err = Concat(0, nibbles(4), nibbles(2)); err != nil || !slices.Equal(r.Bytes(), []byte{0x21, 0x43, 0x21}) {
		t.Errorf("got %v, %v", r, err)
	}
	for want, list := range map[string][]*Tensor{"no tensors": nil,
		"cannot join float[2 2] and float[3]": {a, Must(New([]float32{1, 2, 3}))}, "and int64[2 2]": {a, Must(New([]int64{1, 2, 3, 4}, 2, 2))},
		"out of range for rank 0": {Scalar(1.0)}, "share bytes": {nibbles(3), nibbles(2)}} {
		if _, err := Concat(0, list...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Concat(2, a, a); err == nil {
		t.Error("want an error")
	}
}

func TestStack(t *testing.T) {
	r, err := Stack(Must(New([]int64{1, 2})), Must(New([]int64{3, 4})), Must(New([]int64{5, 6})))
	if err != nil || Equal(r, Must(New([]int64{1, 2, 3, 4, 5, 6}, 3, 2))) != nil {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err = Stack(Scalar(1.5), Scalar(2.5)); err != nil || !slices.Equal(r.Shape(), []int{2}) {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := Stack(Scalar(1.5), Must(New([]float64{1, 2}))); err == nil {
		t.Error("want an error")
	}
}

// TestRows changes a tensor through views of it.
func TestRows(t *testing.T) {
	x := Must(New([]float32{1, 2, 3, 4, 5, 6}, 3, 2))
	v, err := x.Rows(1, 3)
	if err != nil || !slices.Equal(v.Shape(), []int{2, 2}) {
		t.Fatalf("got %v, %v", v, err)
	}
	MustData[float32](v)[0] = 30
	row, err := x.Row(1)
	if err != nil || !slices.Equal(row.Shape(), []int{2}) || MustData[float32](row)[0] != 30 {
		t.Errorf("got %v, %v", row, err)
	}
	if s, err := Must(New([]string{"a", "b", "c"})).Row(2); err != nil || MustData[string](s)[0] != "c" ||
		s.Rank() != 0 {
		t.Errorf("got %v, %v", s, err)
	}
	if e, err := x.Rows(3, 3); err != nil || e.Len() != 0 {
		t.Errorf("got %v, %v", e, err)
	}
	p := Must(FromBytes(TypeUint4, []byte{0x21, 0x43, 5}, 5))
	if v, err = p.Rows(2, 5); err != nil || !slices.Equal(v.Bytes(), []byte{0x43, 5}) {
		t.Errorf("got %v, %v", v, err)
	}
	for i, f := range []func() (*Tensor, error){func() (*Tensor, error) {
		return p.Rows(1, 3)
	}, func() (*Tensor, error) { return p.Rows(2, 3) }, func() (*Tensor, error) { return x.Rows(-1, 1) },
		func() (*Tensor, error) { return x.Rows(2, 1) }, func() (*Tensor, error) { return x.Row(3) }, func() (*Tensor, error) { return Scalar(1.0).Row(0) }} {
		if _, err := f(); err == nil {
			t.Errorf("case %d: want an error", i)
		}
	}
}

func TestItems(t *testing.T) {
	s := &Sequence{Elem: TensorType(TypeInt64),
		Items: []Value{Must(New([]int64{1, 2})), Must(New([]int64{}, 0)), Scalar(int64(3))}}
	r, err := Items[int64](s)
	if err != nil || fmt.Sprint(r) != "[[1 2] [] [3]]" {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err = Items[int64](s.Items[0]); err != nil || fmt.Sprint(r) != "[[1 2]]" {
		t.Errorf("got %v, %v", r, err)
	}
	for _, v := range []Value{nil, (*Sequence)(nil), s, &Optional{}} {
		if _, err := Items[float32](v); err == nil {
			t.Errorf("%v: want an error", v)
		}
	}
}

// TestStringLimits prints values of many items.
func TestStringLimits(t *testing.T) {
	many := &Sequence{Elem: TensorType(TypeInt64)}
	for range 100 {
		many.Items = append(many.Items, Scalar(int64(1)))
	}
	deep := Value(many)
	for range 60 {
		deep = &Sequence{Elem: deep.Type(), Items: slices.Repeat([]Value{deep}, 8)}
	}
	for _, v := range []Value{many, deep, &Optional{Elem: deep.Type(), Value: deep}} {
		if s := fmt.Sprintf("%s", v); len(s) > 10_000 {
			t.Errorf("String of %.40s has %d bytes", v.Type(), len(s))
		}
		if s := fmt.Sprint(v); len(s) > 2*maxFormat {
			t.Errorf("Format of %.40s has %d bytes", v.Type(), len(s))
		}
	}
}

// TestNilValues passes nil to the functions that combine and take apart values.
func TestNilValues(t *testing.T) {
	x := Must(New([]float32{1, 2}))
	var none *Tensor
	var archive NPZ
	for name, call := range map[string]func() error{
		"Concat":      func() error { _, err := Concat(0, x, nil); return err },
		"Concat, 1st": func() error { _, err := Concat(0, nil, x); return err },
		"Stack":       func() error { _, err := Stack(x, nil); return err },
		"Rows":        func() error { _, err := none.Rows(0, 1); return err },
		"Row":         func() error { _, err := none.Row(0); return err },
		"Items":       func() error { _, err := Items[float32]((*Sequence)(nil)); return err },
		"Maps":        func() error { _, err := Maps[int64, float32]((*Sequence)(nil)); return err },
		"Maps, item":  func() error { _, err := Maps[int64, float32](&Sequence{Items: []Value{(*Map)(nil)}}); return err },
		"NewSequence": func() error { _, err := NewSequence(TensorType(TypeFloat32), x, none); return err },
		"NewMap":      func() error { _, err := NewMap(nil, x); return err },
		"NewMap, 2nd": func() error { _, err := NewMap(Must(New([]int64{1, 2})), none); return err },
		"NPZ.Add":     func() error { return archive.Add("a", nil) },
		"WriteNPZ":    func() error { return WriteNPZ(io.Discard, nil, false) },
		"WriteNPY":    func() error { return WriteNPY(io.Discard, nil) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSlice(t *testing.T) {
	x := Must(New([]int16{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 2, 3, 2))
	for _, axis := range []int{1, -2} {
		v, err := x.Slice(axis, 1, 3)
		if err != nil || !slices.Equal(v.Shape(), []int{2, 2, 2}) ||
			!slices.Equal(MustData[int16](v), []int16{3, 4, 5, 6, 9, 10, 11, 12}) {
			t.Errorf("axis %d: got %v %v, error %v", axis, v.Shape(), MustData[int16](v), err)
		}
		MustData[int16](v)[0] = 0
		if MustData[int16](x)[2] != 3 {
			t.Error("the slice shares its elements")
		}
	}
	if v, err := Must(New([]string{"a", "b", "c", "d"}, 2, 2)).Slice(1, 1, 2); err != nil ||
		!slices.Equal(MustData[string](v), []string{"b", "d"}) {
		t.Errorf("strings: got %v, error %v", v, err)
	}
	packed := Must(Zeros(TypeInt4, 4))
	for _, fn := range []func() (*Tensor, error){func() (*Tensor, error) { return x.Slice(3, 0, 1) },
		func() (*Tensor, error) { return x.Slice(-4, 0, 1) }, func() (*Tensor, error) { return x.Slice(1, 2, 1) },
		func() (*Tensor, error) { return x.Slice(1, 0, 4) }, func() (*Tensor, error) { return x.Slice(1, -1, 1) },
		func() (*Tensor, error) { return packed.Slice(0, 0, 2) }} {
		if v, err := fn(); err == nil {
			t.Errorf("got %v, want an error", v)
		}
	}
}
