package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onward-ml/onward/backend"
	_ "github.com/onward-ml/onward/imagecodec/jpeg2000" // formats in the suite that not every program decodes
	_ "github.com/onward-ml/onward/imagecodec/webp"
)

// Options configure a [Runner]. The zero value selects the defaults.
type Options struct {
	// Dir is the data folder of the suite, with the folders node, simple and so on. If it
	// is empty, [Runner.Add] adds all cases.
	Dir string
	// Kinds are the kinds of cases to load. Default: all in Dir.
	Kinds []string
	// Devices are the devices on which each case runs. Default: CPU and CUDA.
	Devices []string
	// Prepare holds the options of backend.Prepare for each case, except for the device.
	Prepare *backend.Options
	// Cases holds options of single cases by case name without device.
	Cases map[string]CaseOptions
	// Checks replaces the comparison of random results by a test of their
	// distribution, by case name without device. Default: [RandomChecks].
	Checks map[string]Check
	// Runs is the number of runs of each data set. A second run tests what a backend
	// caches in the first one, such as a memory plan. Default: 1.
	Runs int
	// Parallel is the number of cases that run at the same time. Default: the number of
	// cores. Subtests of `go test` follow its flag -parallel instead.
	Parallel int
	// Timeout bounds one case. Default: no limit.
	Timeout time.Duration
	// Fetch opens the archive at a URL, a model that the suite does not contain. If it is nil,
	// their cases are skipped unless the models are in the cache folder.
	Fetch func(ctx context.Context, url string) (io.ReadCloser, error)
	// CacheDir holds downloaded models, one folder each. Default: the environment
	// variable ONNX_MODELS, else models/ in ONNX_HOME, else ~/.onnx/models.
	CacheDir string
	// Progress is called after each case that [Runner.Results] has run or skipped, by one
	// goroutine at a time.
	Progress func(done, total int, r Result)
}

// CaseOptions are the options of a single case. A nil field keeps the setting of the case
// or of [Options].
type CaseOptions struct {
	Rtol, Atol *float64
	Prepare    *backend.Options // instead of Options.Prepare
}

// Runner runs cases of the suite on a backend. It is not safe for concurrent use.
type Runner struct {
	backend  backend.Backend
	opts     Options
	items    []*item
	taken    map[string]bool // names of items, by category/name
	include  []*regexp.Regexp
	exclude  []*regexp.Regexp
	xfail    []*regexp.Regexp
	errs     []error
	coverage *Coverage
}

// item is one case on one device.
type item struct {
	category string
	name     string // with the device
	device   string
	test     *TestCase
}

// Category returns the name of a kind in reports and tests, that of the test class of
// onnx.backend.test: "OnnxBackendPyTorchOperatorModelTest" for "pytorch-operator".
func Category(kind string) string { return "OnnxBackend" + category(kind) + "Test" }

// category returns the middle of the class's name, such as "PyTorchOperatorModel".
func category(kind string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(kind, func(r rune) bool { return r == '-' || r == '_' }) {
		if w == "pytorch" {
			w = "PyTorch"
		}
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String() + "Model"
}

// New returns a runner with the cases in opts.Dir. Nil options stand for the defaults: no cases, to
// which callers add theirs.
func New(b backend.Backend, o *Options) (*Runner, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	r := &Runner{backend: b, opts: opts, taken: map[string]bool{}}
	if opts.Dir == "" {
		return r, nil
	}
	kinds := opts.Kinds
	if kinds == nil {
		var err error
		if kinds, err = Kinds(opts.Dir); err != nil {
			return nil, err
		}
	}
	for _, k := range kinds {
		cases, err := LoadModelTests(opts.Dir, k)
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if err := r.Add(c); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// Add adds a case on each device, in the category of its kind.
func (r *Runner) Add(c TestCase) error {
	if !strings.HasPrefix(c.Name, "test_") {
		return fmt.Errorf("Test name must start with test_: %s", c.Name)
	}
	devices := r.opts.Devices
	if devices == nil {
		devices = []string{"CPU", "CUDA"}
	}
	class := Category(c.Kind)
	for _, d := range devices {
		name := c.Name + "_" + strings.ToLower(d)
		if r.taken[class+"/"+name] {
			return fmt.Errorf("Duplicated test name \"%s\" in category \"%s\"", name, category(c.Kind))
		}
		r.taken[class+"/"+name] = true
		r.items = append(r.items, &item{category: class, name: name, device: d, test: &c})
	}
	return nil
}

// Include restricts the runner to cases whose name with device matches the regular
// expression or that of another Include. An invalid pattern is an error of the run.
func (r *Runner) Include(pattern string) *Runner { return r.pattern(&r.include, "include", pattern) }

// Exclude skips cases whose name with device matches, even if an Include matches.
func (r *Runner) Exclude(pattern string) *Runner { return r.pattern(&r.exclude, "exclude", pattern) }

// XFail expects cases whose name with device matches to fail. Passing is then an error.
func (r *Runner) XFail(pattern string) *Runner { return r.pattern(&r.xfail, "xfail", pattern) }

func (r *Runner) pattern(list *[]*regexp.Regexp, what, pattern string) *Runner {
	re, err := regexp.Compile(pattern)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("backendtest: %s pattern: %w", what, err))
		return r
	}
	*list = append(*list, re)
	return r
}

// EnableReport records the operators, attributes and models of the cases that run; see
// [Runner.Coverage].
func (r *Runner) EnableReport() *Runner {
	r.coverage = NewCoverage()
	return r
}

// Coverage returns what EnableReport has recorded so far, or nil without it.
func (r *Runner) Coverage() *Coverage { return r.coverage }

// Len returns the number of cases on all devices, including those that will be skipped.
func (r *Runner) Len() int { return len(r.items) }

// plan returns the items sorted by category and name.
func (r *Runner) plan() ([]*item, error) {
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	names := map[string]bool{}
	for _, it := range r.items {
		names[it.test.Name] = true
	}
	for _, n := range slices.Sorted(maps.Keys(r.opts.Cases)) {
		// A misspelled name would have no effect.
		if len(r.opts.Kinds) == 0 && !names[n] {
			return nil, fmt.Errorf("backendtest: Options.Cases names the unknown case %q", n)
		}
	}
	items := slices.Clone(r.items)
	slices.SortFunc(items, func(a, b *item) int {
		if c := strings.Compare(a.category, b.category); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return items, nil
}

// skip returns the reason why an item is skipped, empty if it runs.
func (r *Runner) skip(it *item) string {
	matches := func(re *regexp.Regexp) bool { return re.MatchString(it.name) }
	for _, re := range r.exclude {
		if matches(re) {
			return fmt.Sprintf("matched exclude pattern \"%s\"", re)
		}
	}
	if len(r.include) > 0 && !slices.ContainsFunc(r.include, matches) {
		return "no matched include pattern"
	}
	if !backend.SupportsDevice(r.backend, it.device) {
		return "Backend doesn't support device " + it.device
	}
	return ""
}

func (r *Runner) expectedToFail(it *item) bool {
	return slices.ContainsFunc(r.xfail, func(re *regexp.Regexp) bool { return re.MatchString(it.name) })
}
