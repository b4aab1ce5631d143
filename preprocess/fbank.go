package preprocess

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/tensor"
)

// The frames of models of speech at 16 kHz: 25 ms of sound every 10 ms.
const (
	frameLength = 400
	frameHop    = 160
	frameSize   = 512 // of the transform
)

// KaldiFbank returns the logarithms of the energies of mel bands, of shape [frames, bands], for
// mono samples between -1 and 1 at 16 kHz, as Kaldi computes them without dither for models of k2
// and Vosk: frames of 25 ms every 10 ms without their mean, pre-emphasis of 0.97, Povey's window,
// bands of 20 to 7600 Hz. With snip, frame i begins at sample 160i, and there are
// 1+(len(samples)-400)/160 frames. Otherwise frame i is centered at sample 160i+80, samples beyond
// the ends are reflected, and there are (len(samples)+80)/160 frames.
func KaldiFbank(samples []float32, bands int, snip bool) (*tensor.Tensor, error) {
	if err := checkBands(bands); err != nil {
		return nil, err
	}
	frames, first := (len(samples)+frameHop/2)/frameHop, (frameHop-frameLength)/2
	if snip {
		frames, first = (len(samples)-frameLength+frameHop)/frameHop, 0
		if len(samples) < frameLength {
			frames = 0
		}
	}
	t, err := tensor.Zeros(tensor.TypeFloat32, frames, bands)
	if err != nil {
		return nil, err
	}
	mel := func(hz float64) float64 { return 1127 * math.Log(1+hz/700) }
	lo, hi := mel(20), mel(7600)
	width := (hi - lo) / float64(bands+1)
	filters := make([]float64, bands*(frameSize/2+1))
	for b := range bands {
		left := lo + float64(b)*width
		for k := range frameSize/2 + 1 {
			m := mel(float64(k) * 16000 / frameSize)
			filters[b*(frameSize/2+1)+k] = max(0, min((m-left)/width, (left+2*width-m)/width))
		}
	}
	window := make([]float64, frameLength)
	for i := range window {
		window[i] = math.Pow(0.5-0.5*math.Cos(2*math.Pi*float64(i)/(frameLength-1)), 0.85)
	}
	bank := newFilterBank(filters)
	frame, data := make([]float64, frameLength), tensor.MustData[float32](t)
	for i := range frames {
		sum := 0.0
		for k := range frame {
			frame[k] = float64(samples[reflect(first+i*frameHop+k, len(samples))])
			sum += frame[k]
		}
		for k := range frame {
			frame[k] -= sum / frameLength
		}
		for k := frameLength - 1; k > 0; k-- {
			frame[k] -= 0.97 * frame[k-1]
		}
		frame[0] -= 0.97 * frame[0]
		for k := range frame {
			frame[k] *= window[k]
		}
		bank.energies(data[i*bands:(i+1)*bands], frame, 1, func(e float64) float64 {
			return math.Log(max(e, 1.0/(1<<23))) // the step of float32 at 1
		})
	}
	return t, nil
}

// reflect returns the index of n elements that i beyond the ends stands for, in a row of copies of
// which every second is reversed.
func reflect(i, n int) int {
	for i < 0 || i >= n {
		if i < 0 {
			i = -i - 1
		} else {
			i = 2*n - 1 - i
		}
	}
	return i
}

// NeMoFbank returns the input of NVIDIA NeMo's models of speech, of shape
// [1, bands, len(samples)/160+1], for mono samples between -1 and 1 at 16 kHz: logarithms of the
// energies of mel bands, each with mean 0 and deviation 1 over the first n = len(samples)/160
// frames. The last frame is 0. Frames are not dithered.
func NeMoFbank(samples []float32, bands int) (x *tensor.Tensor, n int, err error) {
	mel, err := MelFilters(16000, frameSize, bands)
	if err != nil {
		return nil, 0, err
	}
	filters := make([]float64, mel.Len())
	for i, v := range tensor.MustData[float32](mel) {
		filters[i] = float64(v)
	}
	n = len(samples) / frameHop
	if x, err = tensor.Zeros(tensor.TypeFloat32, 1, bands, n+1); err != nil {
		return nil, 0, err
	}
	bank := newFilterBank(filters)
	frame, data := make([]float64, frameLength), tensor.MustData[float32](x)
	at := func(i int) float64 {
		if i < 0 || i >= len(samples) {
			return 0
		}
		return float64(samples[i])
	}
	for i := range n {
		for k := range frame {
			j := i*frameHop + k - frameLength/2
			frame[k] = 0
			if j >= 0 && j < len(samples) {
				frame[k] = (at(j) - 0.97*at(j-1)) * (0.5 - 0.5*math.Cos(2*math.Pi*float64(k)/(frameLength-1)))
			}
		}
		bank.energies(data[i:], frame, n+1, func(e float64) float64 { return math.Log(e + 1.0/(1<<24)) })
	}
	for b := range bands {
		row := data[b*(n+1):][:n]
		sum, squares := 0.0, 0.0
		for _, v := range row {
			sum += float64(v)
		}
		mean := sum / float64(n)
		for _, v := range row {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
		scale := 1 / (math.Sqrt(squares/float64(max(n-1, 1))) + 1e-5)
		for i, v := range row {
			row[i] = float32((float64(v) - mean) * scale)
		}
	}
	return x, n, nil
}

func checkBands(bands int) error {
	if bands < 1 || bands > 1<<12 {
		return fmt.Errorf("preprocess: %d mel bands, want 1 to %d", bands, 1<<12)
	}
	return nil
}

// filterBank computes the energies of bands of frames.
type filterBank struct {
	fourier *fourier
	in, out []complex128
	power   []float64
	first   []int // bin of each band
	weights [][]float64
}

// newFilterBank takes weights of bands, of shape [bands, frameSize/2+1].
func newFilterBank(filters []float64) *filterBank {
	const bins = frameSize/2 + 1
	b := &filterBank{fourier: newFourier(frameSize), in: make([]complex128, frameSize),
		out: make([]complex128, frameSize), power: make([]float64, bins)}
	for ; len(filters) > 0; filters = filters[bins:] {
		first, end := 0, bins
		for first < end && filters[first] == 0 {
			first++
		}
		for end > first && filters[end-1] == 0 {
			end--
		}
		b.first, b.weights = append(b.first, first), append(b.weights, filters[first:end])
	}
	return b
}

// energies writes f of the energy of each band of a frame, in a distance of step.
func (b *filterBank) energies(dst []float32, frame []float64, step int, f func(float64) float64) {
	clear(b.in)
	for i, v := range frame {
		b.in[i] = complex(v, 0)
	}
	b.fourier.transform(b.out, b.in, frameSize, 1)
	for k := range b.power {
		re, im := real(b.out[k]), imag(b.out[k])
		b.power[k] = re*re + im*im
	}
	for i, weights := range b.weights {
		sum := 0.0
		for k, w := range weights {
			sum += w * b.power[b.first[i]+k]
		}
		dst[i*step] = float32(f(sum))
	}
}
