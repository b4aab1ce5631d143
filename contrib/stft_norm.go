package contrib

import (
	"fmt"

	"github.com/onward-ml/onward/tensor"
)

// StftNorm returns the squared magnitudes of a short-time Fourier transform, of shape
// [1, frequencies, frames]. Frame k is centered at sample k·hop_length; samples outside of the
// sound are 0. The attribute onesided leaves out the upper half of the frequencies.
var _ = register("StftNorm", "pcm_wave:float, n_fft:int64, hop_length:int64, window:float, frame_size:int64",
	"stft_norm:float", func(n *node) (kernel, error) {
		oneSided := n.flag("onesided", true)
		return func(c *call) ([]tensor.Value, error) {
			var sizes [3]int64
			for i, k := range []int{1, 2, 4} {
				var err error
				if sizes[i], err = one[int64](c, k); err != nil {
					return nil, err
				}
			}
			shape := c.tensor(0).Shape()
			if len(shape) != 2 || shape[0] != 1 {
				return nil, fmt.Errorf("the sound has shape %v, want [1, n]", shape)
			}
			if sizes[0] != sizes[2] {
				return nil, fmt.Errorf("n_fft is %d and frame_size %d, want the same", sizes[0], sizes[2])
			}
			norm, bins, frames, err := stftNorm(c, c.floats(0), c.floats(3), sizes[0], sizes[1], oneSided)
			if err != nil {
				return nil, err
			}
			return values(shaped(norm, 1, bins, frames))
		}, nil
	})

// maxFourier limits the size of a Fourier transform.
const maxFourier = 1 << 20

func stftNorm(c *call, samples, window []float32, size, hop int64, oneSided bool) (norm []float32, bins, frames int,
	err error) {
	if size < 1 || size > maxFourier || hop < 1 || len(window) == 0 || int64(len(window)) > size {
		return nil, 0, 0, fmt.Errorf("n_fft is %d, hop_length %d and the window has %d samples, want n_fft of 1 to "+
			"%d, hop_length of at least 1 and a window of at most n_fft samples", size, hop, len(window), maxFourier)
	}
	bins, frames = int(size), int(int64(len(samples))/hop)+1
	if oneSided {
		bins = int(size)/2 + 1
	}
	if norm, err = filled(c, 4, float32(0), bins, frames); err != nil {
		return nil, 0, 0, err
	}
	if err := c.Reserve(48 * size); err != nil {
		return nil, 0, 0, err
	}
	f := newFourier(c.ctx, int(size))
	x := make([]complex128, size)
	for k := range frames {
		if k&15 == 0 && c.ctx.Err() != nil {
			return nil, 0, 0, c.ctx.Err()
		}
		clear(x)
		from := k*int(hop) - len(window)/2
		for i, w := range window {
			if at := from + i; at >= 0 && at < len(samples) {
				x[i] = complex(float64(samples[at])*float64(w), 0)
			}
		}
		if err := f.transform(x); err != nil {
			return nil, 0, 0, err
		}
		for b := range bins {
			norm[b*frames+k] = float32(real(x[b])*real(x[b]) + imag(x[b])*imag(x[b]))
		}
	}
	return norm, bins, frames, nil
}
