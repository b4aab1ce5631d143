package tensor_test

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// Requests are stacked to a batch, and the rows of the result are handed out without copies.
func ExampleStack() {
	a := tensor.Must(tensor.New([]float32{1, 2, 3}))
	b := tensor.Must(tensor.New([]float32{4, 5, 6}))
	batch, err := tensor.Stack(a, b)
	if err != nil {
		panic(err)
	}
	row, err := batch.Row(1)
	fmt.Println(batch, row, err)
	// Output:
	// [[1 2 3]
	//  [4 5 6]] [4 5 6] <nil>
}

func ExampleConcat() {
	a := tensor.Must(tensor.New([]int64{1, 2}, 1, 2))
	b := tensor.Must(tensor.New([]int64{3, 4, 5, 6}, 2, 2))
	r, err := tensor.Concat(0, a, b)
	fmt.Println(r, err)
	// Output:
	// [[1 2]
	//  [3 4]
	//  [5 6]] <nil>
}
