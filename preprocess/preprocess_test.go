package preprocess

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/cmplx"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

func load(t *testing.T, file string) *tensor.NPZ {
	t.Helper()
	z, err := tensor.ReadNPZFile("testdata/"+file, 0)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func asImage(x *tensor.Tensor) *Image {
	return &Image{x.Dim(0), x.Dim(1), 3, tensor.MustData[uint8](x)}
}

// TestResize compares images with those of Pillow and of OpenCV: byte for byte, or within one step
// for OpenCV's cubic and area interpolation.
func TestResize(t *testing.T) {
	z := load(t, "images.npz")
	filters := map[string]Filter{"nearest": Nearest, "box": Box, "bilinear": Bilinear, "hamming": Hamming,
		"bicubic": Bicubic, "lanczos": Lanczos}
	inter := map[string]Interpolation{"nearest": InterNearest, "linear": InterLinear, "cubic": InterCubic,
		"area": InterArea}
	n, differ := 0, 0
	for _, name := range z.Names {
		p := strings.Split(name, "_")
		if len(p) != 3 {
			continue
		}
		want := asImage(z.Arrays[name])
		from := asImage(z.Arrays["image"])
		if p[0] == "evencv" {
			from = asImage(z.Arrays["even"])
		}
		var got *Image
		var err error
		steps := 0
		if p[0] == "pillow" {
			got, err = from.Resize(want.Height, want.Width, filters[p[1]])
		} else {
			got, err = from.ResizeCV(want.Height, want.Width, inter[p[1]])
			if p[1] == "cubic" || p[1] == "area" {
				steps = 1
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		worst, bad := 0, 0
		for i, v := range got.Pixels {
			d := int(v) - int(want.Pixels[i])
			if d != 0 {
				bad++
			}
			worst = max(worst, d, -d)
		}
		n++
		if bad > 0 {
			differ++
			t.Logf("%s: %d of %d bytes differ, by at most %d", name, bad, len(got.Pixels), worst)
		}
		if worst > steps {
			t.Errorf("%s: differs by %d, want at most %d", name, worst, steps)
		}
	}
	if n != 8*10+8 {
		t.Errorf("%d images were compared, want 88", n)
	}
}

func near(t *testing.T, name string, got, want *tensor.Tensor, tolerance float64) {
	t.Helper()
	if !slices.Equal(got.Shape(), want.Shape()) {
		t.Errorf("%s: shape %v, want %v", name, got.Shape(), want.Shape())
		return
	}
	if abs, _, err := tensor.Distance(got, want); err != nil || abs > tolerance {
		t.Errorf("%s: differs by %g, want at most %g (%v)", name, abs, tolerance, err)
	}
}

func TestSound(t *testing.T) {
	z := load(t, "sound.npz")
	samples := tensor.MustData[float32](z.Arrays["samples"])
	for _, name := range z.Names {
		var a, b, c int
		var mode string
		want := z.Arrays[name]
		if n, _ := fmt.Sscanf(name, "mel_%d_%d_%d", &a, &b, &c); n == 3 {
			got, err := MelFilters(a, b, c)
			if err != nil {
				t.Fatal(err)
			}
			near(t, name, got, want, 1e-7)
		} else if n, _ := fmt.Sscanf(name, "stft_%d_%d_%s", &a, &b, &mode); n == 3 {
			all, err := STFT(samples, Spectrum{Size: a, Hop: b, Reflect: mode == "reflect"})
			if err != nil {
				t.Fatal(err)
			}
			frames := all.Dim(1)
			step := max(1, frames/6)
			if kept := (frames + step - 1) / step; kept != want.Dim(1) || all.Dim(0) != want.Dim(0) {
				t.Errorf("%s: shape %v, want each %d of %v", name, all.Shape(), step, want.Shape())
				continue
			}
			data := tensor.MustData[float32](all)
			var part []float32
			for k := range all.Dim(0) {
				for i := 0; i < frames; i += step {
					part = append(part, data[(k*frames+i)*2:][:2]...)
				}
			}
			near(t, name, tensor.Must(tensor.New(part, want.Shape()...)), want, 1e-4)
		}
	}
	got, err := LogMel(samples, 80)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "whisper", got, z.Arrays["whisper"], 1e-4)
	if got, err = LogMel(Fit(samples, 30*16000), 128); err != nil || !slices.Equal(got.Shape(), []int{1, 128, 3000}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestFourierOfLargePrimes adds 65,521 terms, whose indices exceed 32 bits as products.
func TestFourierOfLargePrimes(t *testing.T) {
	const n = 65521
	f := newFourier(n)
	for _, at := range []int{1, 2, n - 1} {
		part := make([]complex128, n)
		for r := range part {
			part[r] = cmplx.Conj(f.roots[int64(r)*int64(at)%n])
		}
		if got := f.sum(part, at, n); cmplx.Abs(got-n) > 1e-6 {
			t.Errorf("frequency %d: %v, want %d", at, got, n)
		}
	}
}

// TestSmallFrames uses sizes whose quarter is 0.
func TestSmallFrames(t *testing.T) {
	for _, size := range []int{2, 3, 4} {
		if x, err := STFT(make([]float32, 10), Spectrum{Size: size}); err != nil || x.Dim(1) < 10 {
			t.Errorf("size %d: %v, %v, want a frame for each sample", size, x, err)
		}
	}
}

func TestSoundErrors(t *testing.T) {
	for _, o := range []Spectrum{{}, {Size: 1 << 20}, {Size: 8, Hop: -1}, {Size: 400, Reflect: true}} {
		if _, err := STFT(make([]float32, 100), o); err == nil {
			t.Errorf("%+v: want an error", o)
		}
	}
	if x, err := STFT(nil, Spectrum{Size: 8}); err != nil || x.Dim(1) != 1 {
		t.Errorf("got %v, %v", x, err)
	}
	if _, err := MelFilters(16000, 400, 0); err == nil {
		t.Error("want an error")
	}
	if _, err := LogMel(make([]float32, 201), 80); err != nil {
		t.Error(err)
	}
}

func ramp(h, w, c int) *Image {
	m, err := NewImage(h, w, c)
	if err != nil {
		panic(err)
	}
	for i := range m.Pixels {
		m.Pixels[i] = uint8(i)
	}
	return m
}

func TestGeometry(t *testing.T) {
	m := ramp(4, 6, 3)
	c, err := m.CenterCrop(2, 3)
	if err != nil || c.At(0, 0, 0) != m.At(1, 2, 0) || c.At(1, 2, 2) != m.At(2, 4, 2) { // (6-3)/2 = 1.5 is rounded to 2
		t.Errorf("got %v, %v", c, err)
	}
	p, err := m.Pad(1, 0, 2, 1, 9)
	if err != nil || p.Height != 5 || p.Width != 9 || p.At(0, 4, 0) != 9 || p.At(1, 2, 0) != m.At(0, 0, 0) ||
		p.At(4, 8, 1) != 9 {
		t.Errorf("got %v, %v", p, err)
	}
	l, at, err := m.Letterbox(12, 12, Bilinear, 114)
	if err != nil || at != (Placement{2, 2, 0}) || l.At(1, 5, 0) != 114 || l.At(10, 5, 2) != 114 || l.At(2, 0, 0) != 0 {
		t.Errorf("got %v, %v", at, err)
	}
	s, err := m.ResizeShorter(5, Bicubic)
	if err != nil || s.Height != 5 || s.Width != 7 {
		t.Errorf("got %v, %v", s, err)
	}
	for i, fail := range []func() (*Image, error){
		func() (*Image, error) { return m.Crop(0, 0, 5, 1) }, func() (*Image, error) { return m.Crop(-1, 0, 1, 1) }, func() (*Image, error) { return m.Resize(0, 1, Bilinear) },
		func() (*Image, error) { return m.Resize(1<<20, 1<<20, Bilinear) }, func() (*Image, error) { return m.Resize(2, 2, Filter(99)) }, func() (*Image, error) { return m.ResizeCV(2, 2, 99) },
		func() (*Image, error) { return m.Pad(-1, 0, 0, 0, 0) }, func() (*Image, error) { return m.ResizeShorter(0, Box) }, func() (*Image, error) { return (&Image{Height: 2, Width: 2, Channels: 3}).Resize(1, 1, Box) },
		func() (*Image, error) { return (*Image)(nil).CenterCrop(1, 1) }, func() (*Image, error) { return NewImage(1, 1, 2) },
	} {
		if _, err := fail(); err == nil {
			t.Errorf("case %d: want an error", i)
		}
	}
}

func TestTensor(t *testing.T) {
	m := ramp(2, 2, 3)
	x, err := m.Tensor(Layout{Scale: 1, BGR: true, Mean: []float32{1, 2, 3}, Std: []float32{2}})
	if want := tensor.Must(tensor.New([]float32{0.5, 2, 3.5, 5, -0.5, 1, 2.5, 4, -1.5, 0, 1.5, 3}, 1, 3, 2, 2)); err !=
		nil || tensor.Equal(x, want) != nil {
		t.Errorf("got %v, %v", tensor.MustData[float32](x), err)
	}
	x, err = m.Tensor(Layout{ChannelsLast: true, Scale: 1})
	if err != nil || !slices.Equal(x.Shape(), []int{1, 2, 2, 3}) || tensor.MustData[float32](x)[7] != 7 {
		t.Errorf("got %v, %v", x, err)
	}
	if x, err = m.Tensor(ImageNet); err != nil || math.Abs(float64(tensor.MustData[float32](x)[0])+2.117904) > 1e-5 {
		t.Errorf("got %v, %v", x, err)
	}
	for _, l := range []Layout{{Mean: []float32{1, 2}}, {Std: []float32{1, 0, 1}}} {
		if _, err := m.Tensor(l); err == nil {
			t.Errorf("%+v: want an error", l)
		}
	}
}

func TestDecode(t *testing.T) {
	p := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	p.Set(0, 0, color.NRGBA{10, 20, 30, 255})
	p.Set(1, 0, color.NRGBA{200, 100, 50, 128})
	var b bytes.Buffer
	if err := png.Encode(&b, p); err != nil {
		t.Fatal(err)
	}
	for channels, want := range map[int][]uint8{1: {18, 124}, 3: {10, 20, 30, 200, 100, 50},
		4: {10, 20, 30, 255, 200, 100, 50, 128}} {
		m, err := Decode(bytes.NewReader(b.Bytes()), channels)
		if err != nil || m.Height != 1 || m.Width != 2 || !slices.Equal(m.Pixels, want) {
			t.Errorf("%d channels: got %v, %v, want %v", channels, m, err, want)
		}
	}
	if _, err := Decode(strings.NewReader("no image"), 3); err == nil {
		t.Error("want an error")
	}
	if _, err := Decode(bytes.NewReader(b.Bytes()), 2); err == nil {
		t.Error("want an error")
	}
}

// TestResampleSine checks that a sine keeps its frequency, and that one above the new Nyquist
// frequency is removed.
func TestResampleSine(t *testing.T) {
	const n = 4000
	for _, c := range []struct {
		hz   float64
		to   int
		kept float64
	}{{440, 8000, 1}, {440, 48000, 1}, {1000, 11025, 1}, {7000, 8000, 0}} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(2 * math.Pi * c.hz * float64(i) / 16000))
		}
		for _, beta := range []float64{0, 14.77} {
			y, err := Resample(x, 16000, c.to, Resampling{Width: 32, Beta: beta})
			if err != nil {
				t.Fatal(err)
			}
			if want := (n*c.to + 15999) / 16000; len(y) != want {
				t.Fatalf("%d samples, want %d", len(y), want)
			}
			for i := len(y) / 4; i < len(y)*3/4; i++ {
				want := c.kept * math.Sin(2*math.Pi*c.hz*float64(i)/float64(c.to))
				if d := math.Abs(float64(y[i]) - want); d > 2e-3 {
					t.Fatalf("%g Hz at %d Hz: sample %d is %g, want %g", c.hz, c.to, i, y[i], want)
				}
			}
		}
	}
	for _, c := range [][2]int{{0, 8000}, {8000, -1}, {1 << 25, 8000}} {
		if _, err := Resample(make([]float32, 4), c[0], c[1], Resampling{}); err == nil {
			t.Errorf("Resample from %d to %d Hz: no error", c[0], c[1])
		}
	}
	if y, err := Resample(nil, 1<<24-1, 1<<24, Resampling{}); err != nil || len(y) != 0 {
		t.Errorf("no samples: %v, %v", y, err)
	}
}

// TestReadSound reads files of each format.
func TestReadSound(t *testing.T) {
	for name, want := range map[string][3]int{ // rate, channels, samples
		"stereo16.flac": {16000, 2, 1500}, "encoded-mono.mp3": {8000, 1, 4608}, "encoded-joint.mp3": {44100, 2, 9702},
	} {
		f, err := os.Open("../internal/soundcodec/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ReadSound(f)
		if f.Close(); err != nil || [3]int{s.Rate, len(s.Channels), len(s.Channels[0])} != want {
			t.Errorf("%s: got %v, want %v (%v)", name, s, want, err)
		}
	}
	wav := "RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x02\x00\x80\x3e\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x10\x00data\x04\x00\x00\x00\x00\x40\x00\x20"
	s, err := ReadSound(strings.NewReader(wav))
	if err != nil || s.Rate != 16000 || !slices.Equal(s.Mono(), []float32{0.375}) {
		t.Errorf("got %v, %v", s, err)
	}
	for file, want := range map[string]string{"RI": "preprocess: sound: unexpected EOF",
		"RIFX....": "begins with \"RIFX\"", "RIFFabc": "preprocess: WAV: ", "fLaCabc": "preprocess: FLAC: ", "ID3abc": "preprocess: MP3: "} {
		if _, err := ReadSound(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
	grow := limit()
	if err := errors.Join(grow(1<<28), grow(0)); err != nil {
		t.Error(err)
	}
	if grow(1) == nil {
		t.Error("2²⁸+1 samples: no error")
	}
}
