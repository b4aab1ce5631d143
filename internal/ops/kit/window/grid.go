package window

import "math"

// GridPoints limits the number of input elements per sample.
const GridPoints = 1 << 16

// KeysKernel is Keys' cubic convolution kernel (https://ieeexplore.ieee.org/document/1163711).
func KeysKernel(x, a float64) float64 {
	switch x = math.Abs(x); {
	case x <= 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

// KeysWeights returns the weights that [KeysKernel] with a = −0.75 gives the two elements before a
// coordinate and the two after it. The coordinate is ratio after an element.
func KeysWeights(ratio float64) [4]float64 {
	const a = -0.75
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	return [4]float64{far(1 + ratio), near(ratio), near(1 - ratio), far(2 - ratio)}
}
