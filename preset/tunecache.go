package preset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/backend"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/onnx"
)

// tuneCache is the file that holds one choice of [Auto]. It is in a folder that only the user
// may write. Its name is a hash of the model, the shapes of the example, the candidates with
// their options, and the machine. The file selects one of the candidates of the program and
// contains no paths or options, so that a forged file can at worst select a slower candidate. A
// file with unexpected contents is ignored and replaced after the next measurement.
type tuneCache struct {
	path, key string
}

// tuneEntry is the content of the file.
type tuneEntry struct {
	Format   int       `json:"format"`
	Key      string    `json:"key"`
	Measured time.Time `json:"measured"`
	Best     string    `json:"best"`
	Baseline string    `json:"baseline"`
	Results  []Result  `json:"results"`
}

const (
	tuneFormat = 1
	// maxTuneFile is the largest file in bytes that is read.
	maxTuneFile = 1 << 20
)

func (a *Auto) cache(m *onnx.Model, list []*candidate) (*tuneCache, error) {
	folder, err := cacheFolder(a.CacheDir, "tune")
	if err != nil {
		return nil, err
	}
	model, err := modelHash(a.Model, m)
	if err != nil {
		return nil, err
	}
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	values, err := exampleValues(a.InputExample, d)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s\n%s\n%g %v\n", tuneFormat, model, machine(), a.Tolerance, a.MinDuration)
	for _, in := range append(d.Inputs, d.OverridableInitializers...) {
		if v := values[in.Name]; v != nil {
			fmt.Fprintf(h, "%q %s\n", in.Name, v) // a tensor is formatted as its type and shape
		}
	}
	for _, c := range list {
		p := c.preset.plan() // its model is not set for a preset that takes the one of Auto
		s := p.session
		version := ""
		if u, ok := driver.Lookup(p.config.Name).(driver.LibraryUser); ok && c.Status == StatusOK {
			if l, err := u.Library(p.config); err == nil {
				version = l.Version
			}
		}
		fmt.Fprintf(h, "%q %v %q %v %q\n", c.Name, c.Status, p.config.Name, p.config.Options, version) // fmt sorts maps
		fmt.Fprintf(h, "%d %d %v %v %v %v %v %v\n", s.Threads, s.InterOpThreads, s.ExecutionMode, s.OptimizationLevel,
			s.Precision, s.DisabledPasses, s.FreeDimensions, s.Config)
		if p.model.Form() != nil {
			m, err := backend.Load(p.model)
			if err != nil {
				return nil, err
			}
			sum, err := modelHash(p.model, m)
			if err != nil {
				return nil, err
			}
			fmt.Fprintln(h, sum)
		}
		if p.table != nil && c.Status == StatusOK {
			t, err := p.table()
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(h, "%x\n", sha256.Sum256(t))
		}
	}
	key := hex.EncodeToString(h.Sum(nil))
	return &tuneCache{path: filepath.Join(folder, key+".json"), key: key}, nil
}

// machine describes the hardware, the operating system and the build, on which the speed
// of a model depends.
func machine() string {
	var b strings.Builder
	host, _ := os.Hostname()
	fmt.Fprintln(&b, runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version(), host,
		os.Getenv("ONWARD_CPU"))
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		info, _ := io.ReadAll(io.LimitReader(f, 1<<16))
		f.Close()
		for line := range strings.Lines(string(info)) {
			if strings.HasPrefix(line, "model name") || strings.HasPrefix(line, "CPU part") {
				b.WriteString(line)
				break
			}
		}
	}
	if v, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		b.Write(v)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, mod := range append(info.Deps, &info.Main) {
			if strings.HasSuffix(mod.Path, "/onward") {
				fmt.Fprintln(&b, mod.Path, mod.Version, mod.Sum)
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				fmt.Fprintln(&b, s.Value)
			}
		}
	}
	return b.String()
}

// read returns the cached report, or nil.
func (c *tuneCache) read(list []*candidate) *Report {
	data, err := readOwn(c.path)
	if err != nil {
		return nil
	}
	var e tuneEntry
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return nil
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil
	}
	if e.check(c.key, list) != nil {
		return nil
	}
	for i, c := range list {
		if c.Status == StatusSkipped {
			e.Results[i] = c.Result
		}
	}
	return &Report{Best: e.Best, Baseline: e.Baseline, Cached: true, Results: e.Results}
}

// check returns why an entry does not belong to the candidates, or is inconsistent.
func (e *tuneEntry) check(key string, list []*candidate) error {
	if e.Format != tuneFormat || e.Key != key {
		return errors.New("the format or the key differs")
	}
	if len(e.Results) != len(list) {
		return fmt.Errorf("got %d results for %d candidates", len(e.Results), len(list))
	}
	known := e.Baseline == OnwardReference{}.Name()
	var best *Result
	for i, r := range e.Results {
		c := list[i]
		if r.Name != c.Name || r.Provider != c.Provider || (r.Status == StatusSkipped) != (c.Status == StatusSkipped) {
			return fmt.Errorf("result %d does not belong to candidate %s", i, c.Name)
		}
		good := false
		switch r.Status {
		case StatusOK:
			good = r.Median > 0 && r.FPS > 0 && r.Runs > 0
		case StatusSkipped, StatusFailed, StatusWrong:
			good = r.Median == 0 && r.FPS == 0
		}
		if !good || r.Open < 0 || r.Runs < 0 || !(r.MaxError >= 0) || math.IsInf(r.FPS, 0) {
			return fmt.Errorf("result %d is inconsistent", i)
		}
		if r.Name == e.Best && r.Status == StatusOK {
			best = &e.Results[i]
		}
		known = known || r.Name == e.Baseline
	}
	if best == nil || !known {
		return errors.New("the best or the baseline is not a candidate")
	}
	for _, r := range e.Results {
		if r.Status == StatusOK && r.Median < best.Median {
			return errors.New("the best is not the fastest")
		}
	}
	return nil
}

// readOwn reads a regular file of at most maxTuneFile bytes that only its owner may write.
func readOwn(path string) ([]byte, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxTuneFile || runtime.GOOS != "windows" && st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%q is not a regular file of at most %d bytes that only its owner may write",
			path, maxTuneFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(st, now) {
		return nil, fmt.Errorf("%q was replaced while it was opened", path)
	}
	return io.ReadAll(io.LimitReader(f, maxTuneFile))
}

// write stores a report.
func (c *tuneCache) write(r *Report) error {
	results := slices.Clone(r.Results)
	for i := range results {
		if results[i].Status == StatusSkipped {
			results[i].Reason = "" // which lists paths of libraries and is determined each time
		}
	}
	data, err := json.MarshalIndent(tuneEntry{Format: tuneFormat, Key: c.key, Measured: time.Now().UTC().
		Truncate(time.Second),
		Best: r.Best, Baseline: r.Baseline, Results: results}, "", "  ")
	if err != nil {
		return err
	}
	// Others can have put a link or a pipe there, which atomicfile would write to.
	if st, err := os.Lstat(c.path); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		if err := os.Remove(c.path); err != nil {
			return err
		}
	}
	return atomicfile.WriteBytes(c.path, 0o600, append(data, '\n'))
}
