package preprocess

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/onward-ml/onward/internal/soundcodec"
	"github.com/onward-ml/onward/tensor"
)

// Sound holds samples between -1 and 1.
type Sound struct {
	Rate     int         // samples per second
	Channels [][]float32 // all of one length
}

// Mono returns the mean of the channels.
func (s *Sound) Mono() []float32 {
	if len(s.Channels) == 1 {
		return s.Channels[0]
	}
	var r []float32
	for c, samples := range s.Channels {
		if c == 0 {
			r = make([]float32, len(samples))
		}
		for i, v := range samples {
			r[i] += v / float32(len(s.Channels))
		}
	}
	return r
}

// ReadWAV reads a WAV file of at most 1 GiB, and at most 2²⁸ samples: of integers of 8, 16, 24 or
// 32 bits, or of floats of 32 or 64 bits.
func ReadWAV(r io.Reader) (*Sound, error) { return readSound("WAV", r, soundcodec.WAV) }

// ReadFLAC reads a FLAC file (RFC 9639) of at most 1 GiB, and at most 2²⁸ samples, or 2²⁶ if the
// file does not state their number. Checksums of frames must be right.
func ReadFLAC(r io.Reader) (*Sound, error) { return readSound("FLAC", r, soundcodec.FLAC) }

// ReadMP3 reads an MP3 file of at most 1 GiB, and at most 2²⁸ samples: layer III of MPEG-1 (ISO/IEC
// 11172-3), of MPEG-2 (ISO/IEC 13818-3), and of MPEG-2.5, which has rates of 8, 11.025 and 12 kHz.
//
// Samples that the encoder added at both ends are removed if the file states their numbers, as
// those of LAME do. Bytes between frames are skipped. A frame whose data is damaged or missing is
// silent; checksums are not compared. Samples are limited to -1 and 1.
func ReadMP3(r io.Reader) (*Sound, error) {
	return readSound("MP3", r, func(data []byte, grow func(int) error) (*soundcodec.Sound, error) {
		return soundcodec.MP3(data, false, grow)
	})
}

// ReadSound reads a WAV, FLAC or MP3 file, as ReadWAV, ReadFLAC and ReadMP3 do. An MP3 file begins
// with an ID3 tag or a frame.
func ReadSound(r io.Reader) (*Sound, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("preprocess: sound: %w", err)
	}
	r = io.MultiReader(bytes.NewReader(head), r)
	switch soundcodec.Format(head) {
	case "wav":
		return ReadWAV(r)
	case "flac":
		return ReadFLAC(r)
	case "mp3":
		return ReadMP3(r)
	}
	return nil, fmt.Errorf("preprocess: the file begins with %q, want \"RIFF\" (WAV), \"fLaC\" (FLAC), or "+
		"\"ID3\" or a frame of MPEG audio (MP3)", head)
}

// readSound decodes a file of at most 1 GiB and 2²⁸ samples.
func readSound(format string, r io.Reader,
	decode func(data []byte, grow func(samples int) error) (*soundcodec.Sound, error)) (*Sound, error) {
	data, err := io.ReadAll(io.LimitReader(r, soundcodec.MaxBytes+1))
	if err == nil && len(data) > soundcodec.MaxBytes {
		err = fmt.Errorf("the file has more than %d bytes", soundcodec.MaxBytes)
	}
	var s *soundcodec.Sound
	if err == nil {
		s, err = decode(data, limit())
	}
	if err != nil {
		return nil, fmt.Errorf("preprocess: %s: %w", format, err)
	}
	return (*Sound)(s), nil
}

// limit returns a function that fails once more than 2²⁸ samples are added.
func limit() func(samples int) error {
	const most = soundcodec.MaxBytes / 4
	sum := 0
	return func(samples int) error {
		if sum += samples; sum > most {
			return fmt.Errorf("the file has more than %d samples", most)
		}
		return nil
	}
}

// Spectrum describes short-time Fourier transforms.
type Spectrum struct {
	Size    int  // samples of a frame, at most 65536
	Hop     int  // samples between frames. Default: Size/4, at least 1
	Reflect bool // continue samples beyond their ends by reflection, else by zeros
}

// STFT returns the complex spectra of frames with a periodic Hann window, of shape
// [Size/2+1, frames, 2], as librosa.stft does: frame i is centered at sample i*Hop.
func STFT(samples []float32, o Spectrum) (*tensor.Tensor, error) {
	if o.Hop == 0 {
		o.Hop = max(1, o.Size/4)
	}
	if o.Size < 2 || o.Size > 1<<16 || o.Hop < 1 {
		return nil, fmt.Errorf("preprocess: Size is %d and Hop %d, want 2 to 65536 and at least 1", o.Size, o.Hop)
	}
	if o.Reflect && len(samples) <= o.Size/2 {
		return nil, fmt.Errorf("preprocess: %d samples cannot be reflected, want more than %d", len(samples), o.Size/2)
	}
	frames, bins := 1+(len(samples)+o.Size/2*2-o.Size)/o.Hop, o.Size/2+1
	t, err := tensor.Zeros(tensor.TypeFloat32, bins, frames, 2)
	if err != nil {
		return nil, err
	}
	window := make([]float64, o.Size)
	for i := range window {
		window[i] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/float64(o.Size))
	}
	f := newFourier(o.Size)
	in, out := make([]complex128, o.Size), make([]complex128, o.Size)
	data := tensor.MustData[float32](t)
	for i := range frames {
		for k := range in {
			at := i*o.Hop + k - o.Size/2
			if o.Reflect {
				if at < 0 {
					at = -at
				}
				if at >= len(samples) {
					at = 2*(len(samples)-1) - at
				}
			}
			in[k] = 0
			if at >= 0 && at < len(samples) {
				in[k] = complex(float64(samples[at])*window[k], 0)
			}
		}
		f.transform(out, in, o.Size, 1)
		for b := range bins {
			data[(b*frames+i)*2], data[(b*frames+i)*2+1] = float32(real(out[b])), float32(imag(out[b]))
		}
	}
	return t, nil
}

// fourier computes discrete Fourier transforms of one size, by the primes of the size.
type fourier struct {
	n     int
	roots []complex128
}

func newFourier(n int) *fourier {
	f := &fourier{n, make([]complex128, n)}
	for i := range f.roots {
		s, c := math.Sincos(-2 * math.Pi * float64(i) / float64(n))
		f.roots[i] = complex(c, s)
	}
	return f
}

// transform writes the transform of n elements of in, in a distance of step.
func (f *fourier) transform(out, in []complex128, n, step int) {
	if n == 1 {
		out[0] = in[0]
		return
	}
	p := 2
	for n%p != 0 {
		if p++; p*p > n {
			p = n
		}
	}
	m := n / p
	for r := range p {
		f.transform(out[r*m:(r+1)*m], in[r*step:], m, step*p)
	}
	part := make([]complex128, p)
	for k := range m {
		for r := range p {
			part[r] = out[r*m+k]
		}
		for q := range p {
			out[q*m+k] = f.sum(part, k+q*m, n)
		}
	}
}

// sum returns Σ part[r]·exp(−2πi·r·at/n), for at < n.
func (f *fourier) sum(part []complex128, at, n int) (s complex128) {
	k := 0 // r·at mod n; the product could overflow
	for _, x := range part {
		s += x * f.roots[k*(f.n/n)]
		if k += at; k >= n {
			k -= n
		}
	}
	return s
}

// MelFilters returns the weights of mel bands, of shape [bands, size/2+1], as librosa.filters.mel
// does by default: Slaney's scale, and bands of equal area. The bands cover 0 to rate/2 Hz.
func MelFilters(rate, size, bands int) (*tensor.Tensor, error) {
	if rate < 1 || size < 2 || size > 1<<16 || bands < 1 || bands > 1<<12 {
		return nil, fmt.Errorf("preprocess: mel filters of rate %d, size %d and %d bands, want positive numbers, at "+
			"most 65536 and 4096", rate, size, bands)
	}
	const linear, knee = 200.0 / 3, 15.0 // Hz per mel below 1000 Hz, which is mel 15
	step := math.Log(6.4) / 27
	mel := func(hz float64) float64 {
		if hz < 1000 {
			return hz / linear
		}
		return knee + math.Log(hz/1000)/step
	}
	hz := func(mel float64) float64 {
		if mel < knee {
			return mel * linear
		}
		return 1000 * math.Exp((mel-knee)*step)
	}
	edges := make([]float64, bands+2)
	for i := range edges {
		edges[i] = hz(mel(float64(rate)/2) * float64(i) / float64(bands+1))
	}
	bins := size/2 + 1
	t, err := tensor.Zeros(tensor.TypeFloat32, bands, bins)
	if err != nil {
		return nil, err
	}
	data := tensor.MustData[float32](t)
	for b := range bands {
		lo, mid, hi := edges[b], edges[b+1], edges[b+2]
		for k := range bins {
			f := float64(k) * float64(rate) / float64(size)
			data[b*bins+k] = float32(max(0, min((f-lo)/(mid-lo), (hi-f)/(hi-mid))) * 2 / (hi - lo))
		}
	}
	return t, nil
}

// LogMel returns the input of Whisper, of shape [1, bands, samples/160], for mono samples at 16
// kHz: log10 of the energies of mel bands (80, or 128 for large-v3), limited to 80 dB below the
// largest, plus 4, divided by 4. The models take 30 s; Fit pads samples to that.
func LogMel(samples []float32, bands int) (*tensor.Tensor, error) {
	const rate, size, hop = 16000, 400, 160
	filters, err := MelFilters(rate, size, bands)
	if err != nil {
		return nil, err
	}
	spectrum, err := STFT(samples, Spectrum{Size: size, Hop: hop, Reflect: true})
	if err != nil {
		return nil, err
	}
	bins, all := spectrum.Dim(0), spectrum.Dim(1)
	frames := all - 1 // Whisper drops the last
	if frames < 1 {
		return nil, fmt.Errorf("preprocess: %d samples are shorter than one frame, want at least %d", len(samples), hop)
	}
	t, err := tensor.Zeros(tensor.TypeFloat32, 1, bands, frames)
	if err != nil {
		return nil, err
	}
	s, w, data := tensor.MustData[float32](spectrum), tensor.MustData[float32](filters), tensor.MustData[float32](t)
	top := math.Inf(-1)
	logs := make([]float64, bands*frames)
	for i := range frames {
		power := make([]float64, bins)
		for k := range power {
			re, im := float64(s[(k*all+i)*2]), float64(s[(k*all+i)*2+1])
			power[k] = re*re + im*im
		}
		for b := range bands {
			sum := 0.0
			for k, p := range power {
				sum += float64(w[b*bins+k]) * p
			}
			logs[b*frames+i] = math.Log10(max(sum, 1e-10))
			top = max(top, logs[b*frames+i])
		}
	}
	for i, v := range logs {
		data[i] = float32((max(v, top-8) + 4) / 4)
	}
	return t, nil
}

// Fit returns a copy of samples with length n, truncated or padded with zeros.
func Fit(samples []float32, n int) []float32 {
	r := make([]float32, max(n, 0))
	copy(r, samples)
	return r
}
