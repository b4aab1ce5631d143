package kit

import "github.com/onward-ml/onward/internal/fail"

// SliceAxes returns axes, or the first n axes if it is nil.
func SliceAxes(axes []int, n, rank int) ([]int, error) {
	if axes == nil {
		if n > rank {
			return nil, fail.Errorf("starts has %d elements, but the input has rank %d", n, rank)
		}
		axes = make([]int, n)
		for i := range axes {
			axes[i] = i
		}
		return axes, nil
	}
	if len(axes) != n {
		return nil, fail.Errorf("starts has %d elements, axes has %d", n, len(axes))
	}
	if _, err := NormalAxes(axes, rank); err != nil {
		return nil, err
	}
	r := make([]int, n)
	for i, a := range axes {
		if a < 0 {
			a += rank
		}
		r[i] = a
	}
	return r, nil
}
