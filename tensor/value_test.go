package tensor

import (
	"fmt"
	"strings"
	"testing"
)

func TestStringOfValues(t *testing.T) {
	x := Must(New([]float32{1, 2}, 2))
	float := TensorType(TypeFloat32)
	var many []Value
	for range 20 {
		many = append(many, x)
	}
	m, err := NewMap(Must(New([]string{"a", "b"}, 2)), x)
	if err != nil {
		t.Fatal(err)
	}
	sparse, err := FromDense(x)
	if err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]Value{
		"seq(tensor(float))[float[2] float[2]]":                                &Sequence{Elem: float, Items: many[:2]},
		"seq(tensor(float))[]":                                                 &Sequence{Elem: float},
		"seq(tensor(float))[" + strings.Repeat("float[2] ", 8) + "… 20 items]": &Sequence{Elem: float, Items: many},
		"map(string,tensor(float))[2]":                                         m,
		"optional(tensor(float))[]":                                            &Optional{Elem: float},
		"optional(tensor(float))[float[2]]":                                    &Optional{Elem: float, Value: x},
		"sparse_tensor(float)[2] with 2 values":                                sparse,
		"map(undefined,tensor(undefined))[0]":                                  &Map{},
		"sparse_tensor(undefined)[] with 0 values":                             &Sparse{},
		"undefined[]": &Tensor{},
	} {
		if got := fmt.Sprintf("%s", v); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
