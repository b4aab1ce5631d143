package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
)

// externalFile is a kind of file that external data is in.
type externalFile struct {
	make   func(path string) error
	valid  bool                    // a model may read it
	change func(path string) error // changes it while the model is opened; nil if nothing does
}

// externalFiles lists them by name.
var externalFiles = map[string]externalFile{
	"data":   {make: megabyte, valid: true},
	"sparse": {make: func(p string) error { return sparse(p, 1<<40) }, valid: true},
	"truncated data": {make: megabyte, valid: true, change: func(p string) (err error) {
		for n := int64(1 << 20); err == nil && n > 0; n /= 2 {
			err = os.Truncate(p, n)
		}
		return err
	}},
	"growing data": {make: megabyte, valid: true, change: func(p string) error { return os.Truncate(p, 1<<40) }},
	"data that becomes a link": {make: megabyte, valid: true, change: func(p string) error {
		return errors.Join(os.Symlink("/dev/zero", p+".new"), os.Rename(p+".new", p))
	}},
	"link to data": {make: func(p string) error {
		return errors.Join(megabyte(p+".target"), os.Symlink(filepath.Base(p)+".target", p))
	}, valid: true},
	"link to another folder": {make: func(p string) error {
		return errors.Join(megabyte(outside(p)), os.Symlink(outside(p), p))
	}},
	"hard link":      {make: func(p string) error { return errors.Join(megabyte(outside(p)), os.Link(outside(p), p)) }},
	"link to itself": {make: func(p string) error { return os.Symlink(filepath.Base(p), p) }},
	"device":         {make: func(p string) error { return os.Symlink("/dev/zero", p) }},
	"folder":         {make: func(p string) error { return os.Mkdir(p, 0o777) }},
	"missing":        {make: func(string) error { return nil }},
}

func megabyte(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o666) }

// outside returns a file in the folder above that of path.
func outside(path string) string { return filepath.Join(filepath.Dir(filepath.Dir(path)), "outside") }

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// weightReaders are operators that passes and plans read, scan or pack the weights of. Each has an
// input of one element, and weights with as many axes of length 1 inserted at an index.
var weightReaders = []struct {
	op, input string
	at, axes  int
}{{"Add", "x", 0, 0}, {"Mul", "x", 0, 0}, {"MatMul", "x", 0, 1}, {"Gemm", "x", 0, 1}, {"Conv", "image", 1, 3}}

// tryExternal opens a model with drawn ranges of external data on both engines, while another
// goroutine changes the file if its kind says so. Opening ends in time, within the memory, and
// reads no file that it may not read.
func tryExternal(_ *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	top, err := os.MkdirTemp("", "attack")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(top)
	dir := filepath.Join(top, "model")
	data := filepath.Join(dir, "w.bin")
	if err := errors.Join(os.Mkdir(dir, 0o777), externalFiles[target].make(data)); err != nil {
		return nil, err
	}
	b := onnx.NewModel("external").Opset("", 21)
	b.Input("x", onnx.Float, 1, 1)
	b.Input("image", onnx.Float, 1, 1, 1, 1)
	for i := range 1 + r.IntN(8) {
		size := int64(4) << (r.IntN(12) * 2)
		if r.IntN(4) == 0 {
			size = 4 << r.IntN(40)
		}
		w := &onnx.Tensor{DataType: onnx.Float, Dims: []int64{size / 4}, DataLocation: onnx.LocationExternal,
			ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "w.bin"}}}
		if r.IntN(2) == 0 {
			w.ExternalData = append(w.ExternalData, onnx.StringStringEntry{Key: "offset",
				Value: strconv.FormatInt(int64(r.Uint64()>>(1+r.IntN(63))), 10)})
		}
		b.Initializer(fmt.Sprint("w", i), w)
		reader := weightReaders[r.IntN(len(weightReaders))]
		for range reader.axes {
			w.Dims = slices.Insert(w.Dims, reader.at, 1)
		}
		b.Node(reader.op, []string{reader.input, fmt.Sprint("w", i)}, []string{fmt.Sprint("y", i)})
		b.Output(fmt.Sprint("y", i), onnx.Float, nil)
	}
	m := b.Must()
	path := filepath.Join(dir, "m.onnx")
	if err := onnx.WriteFile(path, m, nil); err != nil {
		return nil, nil // such as a size that the writer refuses
	}
	limits := onward.Limits{MaxMemory: 64 << 20, Budget: onward.NewMemoryBudget(96 << 20)}
	at := &attempt{model: m, text: fmt.Sprintf("external data in a %s", target)}
	kind := externalFiles[target]
	var opened [2]bool
	for i, p := range []string{"reference", "cpu"} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		done := make(chan bool)
		go func() {
			defer close(done)
			if kind.change != nil {
				_ = kind.change(data) // the file may be gone
			}
		}()
		start := time.Now()
		s, err := onward.Open(ctx, path, &onward.SessionOptions{Providers: []onward.ProviderConfig{{Name: p}},
			Limits: limits, MapWeights: r.IntN(2) == 0})
		cancel()
		<-done
		if opened[i] = err == nil; opened[i] {
			s.Close()
		}
		switch used := limits.Budget.Used(); {
		case time.Since(start) > 20*time.Second:
			return at, fmt.Errorf("%s: opening takes %v with a deadline of 10 s", p, time.Since(start))
		case opened[i] && !kind.valid:
			return at, fmt.Errorf("%s: the model reads a file that it may not read", p)
		case used != 0:
			return at, fmt.Errorf("%s: %d bytes are reserved after the session", p, used)
		}
	}
	if opened[0] != opened[1] && kind.change == nil && target != "sparse" { // which MapWeights maps
		return at, fmt.Errorf("reference opens the model: %v, cpu: %v", opened[0], opened[1])
	}
	return at, nil
}
