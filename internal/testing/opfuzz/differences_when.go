package opfuzz

import (
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward/tensor"
)

// endlessBackwards finds a Slice that goes backwards to 2³¹ - 1.
func endlessBackwards(c *Case) bool {
	if c.Tensor(2) == nil || c.Tensor(4) == nil {
		return false
	}
	ends, err := Floats(c.Tensor(2))
	steps, err2 := Floats(c.Tensor(4))
	if err != nil || err2 != nil {
		return false
	}
	for i, e := range ends {
		if e == math.MaxInt32 && i < len(steps) && steps[i] < 0 {
			return true
		}
	}
	return false
}

// wraps finds an output in which the probability 1 has no integer.
func wraps(c *Case) bool {
	scale, zero := c.Tensor(3), c.Tensor(4)
	if scale == nil || scale.Len() == 0 {
		return false
	}
	_, hi := intRange(c.DType(0))
	z := 0.0
	if zero != nil {
		if f, err := Floats(zero); err == nil && len(f) > 0 {
			z = f[0]
		}
	}
	f, err := Floats(scale)
	return err == nil && math.RoundToEven(1/f[0])+z > hi
}

// moments returns mean and variance of some numbers.
func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance
}

// closeGroups finds a group whose elements differ by less than a thousandth of the
// square of their mean, or by as little as epsilon; and groups of double.
func closeGroups(c *Case) bool {
	x := c.Tensor(0)
	f, err := Floats(x)
	if x.DType() == tensor.TypeFloat64 {
		return true
	}
	if err != nil || x.Rank() < 2 || x.Len() == 0 {
		return false
	}
	n := int(c.Int("num_groups", c.Int("groups", 1)))
	last := c.Domain == "com.microsoft" && c.Int("channels_last", 1) == 1
	channels := x.Dim(1)
	if last {
		channels = x.Dim(x.Rank() - 1)
	}
	if n <= 0 || channels%n != 0 {
		return false
	}
	per, image := channels/n, x.Len()/x.Dim(0)
	groups := make([][]float64, x.Dim(0)*n)
	for i, v := range f {
		channel := i % image / (image / channels)
		if last {
			channel = i % channels
		}
		g := i/image*n + channel/per
		groups[g] = append(groups[g], v)
	}
	return slices.ContainsFunc(groups, func(g []float64) bool {
		mean, variance := moments(g)
		return !(variance > 1e-3*(mean*mean+1e-2))
	})
}

// constantGroup finds a group of MeanVarianceNormalization whose variance is 0, or is
// where it is computed as a difference of squares, and numbers whose squares leave float32.
func constantGroup(c *Case) bool {
	x := c.Tensor(0)
	f, err := Floats(x)
	if err != nil {
		return false
	}
	if huge(c) {
		return true
	}
	axes := []int64{0, 2, 3}
	if a := c.Attr("axes"); a != nil {
		axes = a.Ints
	}
	groups := map[int][]float64{}
	for i, v := range f {
		key, rest, size := 0, i, 1
		for k := x.Rank() - 1; k >= 0; k-- {
			if at := rest % x.Dim(k); !slices.Contains(axes, int64(k)) && !slices.Contains(axes, int64(k-x.Rank())) {
				key += at * size
				size *= x.Dim(k)
			}
			rest /= x.Dim(k)
		}
		groups[key] = append(groups[key], v)
	}
	for _, g := range groups {
		if mean, variance := moments(g); !(variance > 1e-6*mean*mean) {
			return true
		}
	}
	return false
}

// nearSingular finds a matrix whose determinant is less than a hundredth of the volume
// that its rows could span, or a tenth in float16.
func nearSingular(c *Case) bool {
	x := c.Tensor(0)
	f, err := Floats(x)
	if err != nil || x.Rank() < 2 {
		return false
	}
	least := 1e-2
	if x.DType() == tensor.TypeFloat16 {
		least = 0.1
	}
	n := x.Dim(x.Rank() - 1)
	for ; n > 0 && len(f) >= n*n; f = f[n*n:] {
		a := slices.Clone(f[:n*n])
		ratio := 1.0
		for i := range n {
			norm := 0.0
			for _, v := range a[i*n:][:n] {
				norm = math.Hypot(norm, v)
			}
			ratio /= norm
		}
		for i := range n {
			p := i
			for k := i; k < n; k++ {
				if math.Abs(a[k*n+i]) > math.Abs(a[p*n+i]) {
					p = k
				}
			}
			for j := range n {
				a[i*n+j], a[p*n+j] = a[p*n+j], a[i*n+j]
			}
			ratio *= math.Abs(a[i*n+i])
			for k := i + 1; k < n; k++ {
				q := a[k*n+i] / a[i*n+i]
				for j := i; j < n; j++ {
					a[k*n+j] -= q * a[i*n+j]
				}
			}
		}
		if !(ratio > least) {
			return true
		}
	}
	return false
}

// missesParameter finds one of some activation functions of a recurrent network, in
// lower case, for which activation_alpha or activation_beta holds no value.
func missesParameter(c *Case, names ...string) bool {
	activations := c.Attr("activations")
	if activations == nil {
		return false
	}
	alphas, betas := 0, 0 // that are left
	if a := c.Attr("activation_alpha"); a != nil {
		alphas = len(a.Floats)
	}
	if b := c.Attr("activation_beta"); b != nil {
		betas = len(b.Floats)
	}
	for _, f := range activations.Strings {
		f := strings.ToLower(string(f))
		switch f {
		case "affine", "scaledtanh", "hardsigmoid":
			alphas, betas = alphas-1, betas-1
		case "leakyrelu", "thresholdedrelu", "elu":
			alphas--
		default:
			continue
		}
		takesBeta := f == "affine" || f == "scaledtanh" || f == "hardsigmoid"
		if (alphas < 0 || takesBeta && betas < 0) && slices.Contains(names, f) {
			return true
		}
	}
	return false
}
