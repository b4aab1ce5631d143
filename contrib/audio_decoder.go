package contrib

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/soundcodec"
	"github.com/onward-ml/onward/tensor"
)

// maxAudio is the most samples that AudioDecoder returns: 30 s at 16 kHz.
const maxAudio = 480000

// AudioDecoder returns the samples of a WAV, FLAC or MP3 file, of shape [1, samples]; those of
// channels alternate. The attribute stereo_to_mono makes the mean of the channels, and
// downsampling_rate is the rate in Hz to which a file of a higher rate is resampled.
var _ = register("AudioDecoder", "audio_stream:uint8, format:string?", "floatPCM:float",
	func(n *node) (kernel, error) {
		mono, rate := n.flag("stereo_to_mono", false), n.int("downsampling_rate", -1)
		if n.err == nil && rate != -1 && (rate < 1 || rate > math.MaxInt32) {
			return nil, fmt.Errorf("attribute downsampling_rate is %d, want -1 or 1 to %d", rate, math.MaxInt32)
		}
		return func(c *call) ([]tensor.Value, error) {
			s, err := decodeAudio(c)
			if err != nil {
				return nil, err
			}
			if int64(s.Rate) < rate {
				return nil, fmt.Errorf("the file has a rate of %d Hz, want at least %d", s.Rate, rate)
			}
			samples, err := interleave(c, s.Channels, mono)
			if err == nil && rate != -1 && int64(s.Rate) != rate {
				samples, err = downsample(c, samples, s.Rate, int(rate))
			}
			if err != nil {
				return nil, err
			}
			samples = samples[:min(len(samples), maxAudio)]
			return values(shaped(samples, 1, len(samples)))
		}, nil
	})

func decodeAudio(c *call) (*soundcodec.Sound, error) {
	if shape := c.tensor(0).Shape(); len(shape) != 1 && (len(shape) != 2 || shape[0] != 1) {
		return nil, fmt.Errorf("the file has shape %v, want [n] or [1, n]", shape)
	}
	data := c.tensor(0).Bytes()
	format := "default"
	if c.has(1) {
		name, err := one[string](c, 1)
		if err != nil {
			return nil, err
		}
		if name != "" {
			format = name
		}
	}
	if format == "default" {
		if format = soundcodec.Format(data); format == "" {
			return nil, fmt.Errorf("the file begins with %q, want WAV, FLAC or MP3", data[:min(len(data), 4)])
		}
	}
	grow := func(samples int) error {
		if err := c.ctx.Err(); err != nil || samples == 0 {
			return err
		}
		return c.Reserve(4 * int64(samples))
	}
	switch format {
	case "wav":
		return soundcodec.WAV(data, grow)
	case "flac":
		return soundcodec.FLAC(data, grow)
	case "mp3":
		return soundcodec.MP3(data, true, grow)
	}
	return nil, fmt.Errorf("format is %q, want wav, flac, mp3 or default", format)
}

// interleave returns the samples of the channels in turn, or their means.
func interleave(c *call, channels [][]float32, mono bool) ([]float32, error) {
	n := len(channels)
	if n == 1 {
		return channels[0], nil
	}
	size := len(channels[0])
	if !mono {
		size *= n
	}
	out, err := filled(c, 4, float32(0), size)
	if err != nil {
		return nil, err
	}
	for k, channel := range channels {
		for i, v := range channel {
			if i&0xffff == 0 && c.ctx.Err() != nil {
				return nil, c.ctx.Err()
			}
			if mono {
				out[i] += v / float32(n)
			} else {
				out[i*n+k] = v
			}
		}
	}
	return out, nil
}

// downsample resamples as ONNX Runtime Extensions does: after a low-pass filter, it weights the
// samples around each place by sinc functions under Kaiser windows. It keeps the precision of the
// places, float32.
func downsample(c *call, in []float32, from, to int) ([]float32, error) {
	factor := float32(to) / float32(from)
	size := min(int(math.Ceil(float64(float32(len(in))*factor))), maxAudio)
	half := int(min(math.Ceil(3/float64(factor)), float64(len(in))))
	if err := c.Reserve(4*int64(len(in)) + 4*int64(size) + 8*int64(2*half+1)); err != nil {
		return nil, err
	}
	x, err := lowPass(c, in, float64(to)/float64(from)/2)
	if err != nil {
		return nil, err
	}
	out := make([]float32, size)
	window := make([]float64, 0, 2*half+1)
	for i := range out {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		at := float32(i) / factor
		first, last := max(0, int(at)-half), min(len(x)-1, int(at)+half)
		if n := last - first + 1; n != len(window) {
			if window, err = kaiser(c, window, n); err != nil {
				return nil, err
			}
		}
		sum := 0.0
		for k, w := range window {
			if k&0xffff == 0xffff && c.ctx.Err() != nil {
				return nil, c.ctx.Err()
			}
			if d := math.Pi * math.Abs(float64(first+k)-float64(at)); d >= math.Pi*1e-6 {
				w *= math.Sin(d) / d
			}
			sum += float64(x[first+k]) * w
		}
		out[i] = float32(sum)
	}
	return out, nil
}

// lowPass applies a Butterworth filter of order 4, whose cutoff is a part of the sampling rate.
func lowPass(c *call, in []float32, cutoff float64) ([]float32, error) {
	out := make([]float32, len(in))
	k := math.Tan(math.Pi * cutoff)
	var b, a1, a2 [2]float64 // of two sections of order 2
	for s, angle := range [2]float64{math.Pi / 8, 3 * math.Pi / 8} {
		d := 1 + 2*k*math.Cos(angle) + k*k
		b[s], a1[s], a2[s] = k*k/d, 2*(k*k-1)/d, (1-2*k*math.Cos(angle)+k*k)/d
	}
	var x1, x2, y1, y2 [2]float64
	for i, v := range in {
		if i&0xffff == 0 && c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		y := float64(v)
		for s := range 2 {
			x := y
			y = b[s]*(x+2*x1[s]+x2[s]) - a1[s]*y1[s] - a2[s]*y2[s]
			x1[s], x2[s], y1[s], y2[s] = x, x1[s], y, y1[s]
		}
		out[i] = float32(y)
	}
	return out, nil
}

// kaiser returns a Kaiser window of n elements with β = 6, in the memory of window.
func kaiser(c *call, window []float64, n int) ([]float64, error) {
	const beta = 6
	window = window[:0]
	for i := range n {
		if i&0xffff == 0xffff && c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		x := -1.0
		if n > 1 {
			x = 2*float64(i)/float64(n-1) - 1
		}
		window = append(window, bessel(beta*math.Sqrt(1-x*x))/bessel(beta))
	}
	return window, nil
}

// bessel returns the modified Bessel function of the first kind and order 0.
func bessel(x float64) float64 {
	sum, term := 0.0, 1.0
	for n := 1.0; term > 1e-8*sum; n++ {
		sum += term
		term *= x * x / 4 / (n * n)
	}
	return sum
}
