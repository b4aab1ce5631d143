package reduce

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SumReducer adds x in accumulators of type A and stores done(sum).
func SumReducer[T, A kit.RealNumber]() *Reducer[T, A] {
	return &Reducer[T, A]{
		Row: func(acc A, x []T) A {
			for _, v := range x {
				acc += A(v)
			}
			return acc
		},
		Cols: func(acc []A, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] += A(x[i])
			}
		},
		Merge: AddTwo[A],
		Done:  StoreAll[T, A],
	}
}

// AddTwo returns a+b.
func AddTwo[A kit.RealNumber](a, b A) A { return a + b }

// JoinSums adds x to acc.
func JoinSums(acc, x []float64) { vec.AddF64(cpu.Active(), acc, acc, x) }

// StoreAll converts the accumulators to results.
func StoreAll[T, A kit.RealNumber](dst []T, acc []A, n int) {
	dst = dst[:len(acc)]
	for i, a := range acc {
		dst[i] = T(a)
	}
}

// SumSquaresReducer adds the squares of x.
func SumSquaresReducer[T, A kit.RealNumber]() *Reducer[T, A] {
	return &Reducer[T, A]{
		Row: func(acc A, x []T) A {
			for _, v := range x {
				acc += A(v) * A(v)
			}
			return acc
		},
		Cols: func(acc []A, x []T) {
			x = x[:len(acc)]
			for i := range acc {
				acc[i] += A(x[i]) * A(x[i])
			}
		},
		Merge: AddTwo[A],
		Done:  StoreAll[T, A],
	}
}

// WithSquares adds vector kernels to a reducer that adds squares of float64.
func WithSquares(r *Reducer[float64, float64]) *Reducer[float64, float64] {
	r.Row = func(acc float64, x []float64) float64 { return acc + vec.SumSquaresF64(cpu.Active(), x) }
	r.Cols = func(acc, x []float64) {
		var squares [Block]float64
		for l := cpu.Active(); len(acc) > 0; {
			n := min(len(acc), len(squares))
			vec.MulF64(l, squares[:n], x[:n], x)
			vec.AddF64(l, acc[:n], acc, squares[:n])
			acc, x = acc[n:], x[n:]
		}
	}
	r.Join = JoinSums
	return r
}

// WithDone replaces the done function of a reducer.
func WithDone[T, A any](r *Reducer[T, A], done func(dst []T, acc []A, n int)) *Reducer[T, A] {
	r.Done = done
	return r
}

// WithFolds adds vector kernels for long rows and for columns to a reducer.
func WithFolds[T kit.RealNumber](r *Reducer[T, T], row func(l cpu.Level, x []T) T,
	cols func(l cpu.Level, dst, a, b []T)) *Reducer[T, T] {
	short := r.Row
	join := r.Merge
	r.Row = func(acc T, x []T) T {
		if len(x) < 2*kit.ShortRow {
			return short(acc, x)
		}
		return join(acc, row(cpu.Active(), x))
	}
	r.Cols = func(acc, x []T) { cols(cpu.Active(), acc, acc, x) }
	r.Join = r.Cols
	return r
}

// Bools reduces bools as the bytes 0 and 1.
func Bools(r *Reducer[uint8, uint8]) reduceKernel {
	return func(c *ir.Call, p *Plan, out, x *tensor.Tensor) error {
		return Run(c, p, out.Bytes(), x.Bytes(), r)
	}
}

// FastSumReducer adds rows and columns with vector kernels.
func FastSumReducer() *Reducer[float32, float64] {
	r := SumReducer[float32, float64]()
	short := r.Row
	r.Row = func(acc float64, x []float32) float64 {
		if len(x) < kit.ShortRow {
			return short(acc, x)
		}
		return acc + float64(vec.SumF32(cpu.Active(), x))
	}
	r.Rows = func(dst, x []float32, n, first int) {
		vec.SumRowsF32(cpu.Active(), dst, x, n, first)
	}
	cols := r.Cols
	r.Cols = func(acc []float64, x []float32) {
		if len(acc) < kit.ShortRow {
			cols(acc, x)
			return
		}
		vec.AddF32ToF64(cpu.Active(), acc, x)
	}
	done := r.Done
	r.Done = func(dst []float32, acc []float64, n int) {
		if len(acc) < kit.ShortRow {
			done(dst, acc, n)
			return
		}
		vec.F64ToF32(cpu.Active(), dst, acc)
	}
	r.Join = JoinSums
	r.Add = func(acc, x []float32) { vec.AddF32(cpu.Active(), acc, acc, x) }
	r.Stack = func(dst, x []float32, n, step int, fresh bool) {
		vec.SumWindowF32(cpu.Active(), dst, x, n, step, 1, 0, 1, fresh)
	}
	return r
}
