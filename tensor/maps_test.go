package tensor

import (
	"reflect"
	"strings"
	"testing"
)

func TestMaps(t *testing.T) {
	m := func(keys, values any) *Map { return &Map{Keys: keys.(*Tensor), Values: values.(*Tensor)} }
	a := m(Must(New([]int64{0, 1}, 2)), Must(New([]float32{0.25, 0.75}, 2)))
	b := m(Must(New([]int64{1}, 1)), Must(New([]float32{1}, 1)))
	seq, err := NewSequence(a.Type(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Maps[int64, float32](seq)
	if want := []map[int64]float32{{0: 0.25, 1: 0.75}, {1: 1}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("sequence: got %v, %v, want %v", got, err, want)
	}
	got, err = Maps[int64, float32](b)
	if want := []map[int64]float32{{1: 1}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("map: got %v, %v, want %v", got, err, want)
	}
	byName, err := Maps[string, float32](m(Must(New([]string{"cat"}, 1)), Must(New([]float32{0.5}, 1))))
	if want := []map[string]float32{{"cat": 0.5}}; err != nil || !reflect.DeepEqual(byName, want) {
		t.Errorf("keys of strings: got %v, %v, want %v", byName, err, want)
	}
	for name, c := range map[string]struct {
		v    Value
		want string
	}{
		"nil":      {nil, "want a map"},
		"tensor":   {a.Keys, "want a map"},
		"key type": {m(Must(New([]string{"a"}, 1)), Must(New([]float32{1}, 1))), "keys of map 0"},
		"values":   {m(Must(New([]int64{1}, 1)), Must(New([]int64{1}, 1))), "values of map 0"},
		"lengths":  {m(Must(New([]int64{1}, 1)), Must(New([]float32{1, 2}, 2))), "1 keys and 2 values"},
	} {
		if got, err := Maps[int64, float32](c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", name, got, err, c.want)
		}
	}
}
