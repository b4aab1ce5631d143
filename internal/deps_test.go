// Package internal tests which packages of the module may import which.
package internal

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/onward-ml/onward"

// layers lists every part of the module (a folder with all packages below it) and the parts
// that it may import besides itself. For internal parts the lists are transitive: they
// include what their imports may import, except packages below internal/ops/kit, of which
// they have those that they import themselves. The public packages import the internal ones only
// through the root. Imports that are not listed, and packages outside these parts, fail the
// test.
//
// Imports of tests are not checked. This table changes with the design and never to make a
// build pass.
var layers = map[string][]string{
	// Leaves.
	"internal/cpu":        {},
	"internal/dl":         {"internal/natural"},
	"internal/natural":    {},
	"internal/atomicfile": {},
	"internal/flatbuf":    {},
	"internal/fail":       {},
	"internal/regular":    {}, // parts above onnx do not list it for onnx's sake
	"internal/memory":     {},
	"tokenizer":           {},
	// the latter for its files alone: parts above do not list it
	"tensor": {"internal/memory", "internal/fail", "internal/atomicfile"},
	"onnx":   {"tensor", "internal/memory", "internal/fail", "internal/regular"},

	// Kernels see slices and ints, never tensors or graphs.
	"internal/kernels": {"internal/cpu", "internal/memory", "internal/fail"},

	// Image codecs see bytes and pixels. The public packages only link those that
	// package ops does not.
	"internal/imagecodec": {},
	"imagecodec":          {"internal/imagecodec"},

	// Sound codecs see bytes and samples.
	"internal/soundcodec": {},

	// The engine. exec calls operators through ir's interface and never imports ops.
	"internal/ir": {"tensor", "internal/memory", "internal/fail"},

	// What operators share: kit, and below it a package for each family. A package of a
	// family imports another one only where this table says so.
	"internal/ops/kit/gradient":    {"internal/fail"},
	"internal/ops/kit":             {"internal/ops/kit/gradient", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/regex":       {"internal/ir", "tensor", "internal/memory", "internal/fail"},
	"internal/ops/kit/fourier":     {"internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/move":        {"internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/quant":       {"internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/elementwise": {"internal/ops/kit/move", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/reduce":      {"internal/ops/kit/move", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/matmul":      {"internal/ops/kit/move", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/attention":   {"internal/ops/kit/matmul", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/recurrent":   {"internal/ops/kit/matmul", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/ops/kit/window":      {"internal/ops/kit/matmul", "internal/ops/kit/move", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},

	// Operators.
	"internal/ops": {"internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu", "internal/imagecodec",
		"internal/ops/kit/attention", "internal/ops/kit/elementwise", "internal/ops/kit/fourier",
		"internal/ops/kit/gradient", "internal/ops/kit/matmul", "internal/ops/kit/move", "internal/ops/kit/quant",
		"internal/ops/kit/recurrent", "internal/ops/kit/reduce", "internal/ops/kit/regex", "internal/ops/kit/window"},
	"internal/ops/ml": {"internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu",
		"internal/ops/kit/matmul", "internal/ops/kit/move"},
	"internal/ops/msft": {"internal/ops", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu",
		"internal/ops/kit/attention", "internal/ops/kit/elementwise", "internal/ops/kit/fourier",
		"internal/ops/kit/matmul", "internal/ops/kit/move", "internal/ops/kit/quant", "internal/ops/kit/recurrent",
		"internal/ops/kit/reduce", "internal/ops/kit/regex", "internal/ops/kit/window"},
	"internal/ops/nchwc": {"internal/ops/msft", "internal/ops", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu",
		"internal/ops/kit/window"},
	"internal/ops/blocked": {"internal/ops", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu",
		"internal/ops/kit/attention", "internal/ops/kit/elementwise", "internal/ops/kit/matmul", "internal/ops/kit/window"},
	"internal/ops/gradops": {"internal/ops", "internal/ops/kit", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu",
		"internal/ops/kit/attention", "internal/ops/kit/gradient", "internal/ops/kit/matmul", "internal/ops/kit/reduce",
		"internal/ops/kit/window"},
	"internal/ops/all": {"internal/ops", "internal/ops/blocked", "internal/ops/kit", "internal/ops/ml", "internal/ops/msft", "internal/ops/nchwc", "internal/ops/gradops",
		"internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/exec": {"internal/ir", "tensor", "internal/memory", "internal/fail"},
	"internal/optimize": {"internal/ops", "internal/ops/kit", "internal/ops/blocked", "internal/ops/msft", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu",
		"internal/ops/kit/reduce", "internal/ops/kit/window"},

	// Into graphs and out of them. The three do not import each other.
	"internal/frontend": {"onnx", "internal/ops", "internal/ops/kit", "internal/ops/all", "internal/ops/nchwc", "internal/ops/ml", "internal/ops/gradops", "internal/ops/msft", "internal/ir", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},
	"internal/export": {"onnx", "internal/ops", "internal/ops/kit", "internal/ops/blocked", "internal/ops/msft", "internal/ir", "tensor", "internal/memory", "internal/fail",
		"internal/ops/kit/window"},
	"internal/autodiff": {"onnx", "internal/ops/kit", "internal/ops/all",
		"internal/ops/kit/gradient"},

	// What engines implement, and the engine written in Go.
	"driver":            {"onnx", "tensor", "internal/fail"},
	"internal/trace":    {"driver", "onnx", "tensor", "internal/memory", "internal/atomicfile"},
	"internal/goengine": {"driver", "internal/frontend", "internal/export", "internal/autodiff", "internal/optimize", "internal/exec", "internal/ops", "internal/ops/kit", "internal/ops/blocked", "internal/ops/msft", "internal/ops/all", "internal/ops/nchwc", "internal/ops/ml", "internal/ops/gradops", "internal/ir", "onnx", "tensor", "internal/memory", "internal/fail", "internal/kernels", "internal/cpu"},

	// The root, which reaches the other internal parts through the Go engine alone.
	".": {"internal/goengine", "internal/trace", "internal/flatbuf", "internal/fail", "driver", "onnx", "tensor"},

	// What imports the root.
	"backend":             {".", "driver", "onnx", "tensor"},
	"provider":            {".", "driver", "onnx", "tensor", "internal/dl"},
	"calibration":         {".", "driver", "onnx", "tensor", "internal/atomicfile", "internal/flatbuf"},
	"datasets":            {".", "driver", "onnx", "tensor"},
	"internal/imageinput": {".", "driver", "onnx", "tensor"},
	"internal/opset":      {".", "driver", "onnx", "tensor"},
	"tables":              {".", "driver", "onnx", "tensor", "pipeline", "tokenizer", "internal/imageinput", "internal/regular"},
	"preprocess":          {".", "driver", "onnx", "tensor", "internal/imageinput", "internal/soundcodec"},
	"pipeline":            {".", "driver", "onnx", "tensor", "tokenizer", "preprocess", "internal/regular"},
	"preset":              {"backend", ".", "driver", "onnx", "tensor", "internal/atomicfile"},
	"backendtest":         {"backend", ".", "driver", "imagecodec", "onnx", "tensor", "internal/atomicfile"},
	"contrib":             {"driver", "onnx", "tensor", "tokenizer", "internal/imagecodec", "internal/soundcodec"},
	"serve":               {".", "driver", "onnx", "tensor", "pipeline", "tokenizer", "internal/regular"},

	// Examples show what a user of the module can do.
	"examples": {".", "backend", "pipeline", "preprocess", "preset", "calibration", "datasets", "driver", "onnx", "tensor"},

	// Commands and test helpers may import everything, and nothing imports them.
	"cmd":                 {"*"},
	"bench":               {"*"},
	"internal/testing":    {"*"},
	"internal/enginetest": {"*"}, // tests of whole models
}

// partOf returns the part of the module that a package belongs to.
func partOf(pkg string) (string, bool) {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	if rel == "" {
		return ".", true
	}
	for part := rel; part != "."; part = path.Dir(part) { // the longest part
		if _, ok := layers[part]; ok {
			return part, true
		}
	}
	return rel, false
}

func mayImport(from, to string) bool {
	if from == to || slices.Contains(layers[from], to) {
		return true
	}
	free := func(p string) bool { return slices.Equal(layers[p], []string{"*"}) }
	return free(from) && (!free(to) || to == "internal/testing")
}

// platforms are the builds whose imports are checked, because their files differ.
var platforms = []struct{ goos, goarch, tags string }{
	{"linux", "amd64", ""}, {"linux", "arm64", ""}, {"linux", "amd64", "purego"},
	{"darwin", "arm64", ""}, {"windows", "amd64", ""},
}

// watch reads the metadata of every Go file of the module. go test caches results by the
// files that the test process itself opens, and go list is another process: without watch,
// a cached result could hide a forbidden import.
func watch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if name := d.Name(); strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.work" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	GoFiles    []string
	Error      *struct{ Err string }
}

func goList(t *testing.T, goos, goarch, tags string, args ...string) []listed {
	t.Helper()
	watch(t)
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("imports are not checked: %v", err)
	}
	cmd := exec.Command(goTool,
		append([]string{"list", "-json=ImportPath,Standard,Imports,GoFiles,Error", "-tags=" + tags}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Error != nil {
			t.Fatalf("go list: %s: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatalf("go list %s names no package", strings.Join(args, " "))
	}
	return all
}

func inModule(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func TestImportsFollowTheTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range platforms {
		for _, pkg := range goList(t, p.goos, p.goarch, p.tags, module+"/...") {
			if len(pkg.GoFiles) == 0 { // only tests
				continue
			}
			from, known := partOf(pkg.ImportPath)
			seen[from] = true
			if !known {
				t.Errorf("%s/%s %s: package %s is in no part of the table", p.goos, p.goarch, p.tags, pkg.ImportPath)
				continue
			}
			for _, imp := range pkg.Imports {
				if !inModule(imp) {
					continue
				}
				if to, ok := partOf(imp); !ok || !mayImport(from, to) {
					t.Errorf("%s/%s %s: %s imports %s; the table lets %s import %v", p.goos, p.goarch, p.tags,
						pkg.ImportPath, imp, from, layers[from])
				}
			}
		}
	}
	for part := range layers {
		if !seen[part] {
			t.Errorf("part %s has no package", part)
		}
	}
}

// TestTableHasNoCycle checks that no part may import another that may import it, directly or
// indirectly.
func TestTableHasNoCycle(t *testing.T) {
	for start := range layers {
		seen := map[string]bool{}
		for todo := slices.Clone(layers[start]); len(todo) > 0; {
			part := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if part == start {
				t.Errorf("%s can import itself through others", start)
				break
			}
			if !seen[part] {
				seen[part] = true
				todo = append(todo, layers[part]...)
			}
			if _, ok := layers[part]; !ok && part != "*" {
				t.Errorf("%s may import %s, which is no part", start, part)
			}
		}
	}
}

func TestMayImport(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"internal/exec", "internal/ir", true},
		{"internal/exec", "internal/ops", false},
		{"internal/kernels", "tensor", false},
		{"tensor", "onnx", false},
		{"backend", "internal/ir", false},
		{".", "backend", false},
		{".", "internal/ops", false},
		{"driver", ".", false},
		{"driver", "internal/goengine", false},
		{"backend", "preset", false},
		{"internal/ops", "internal/testing", false},
		{"cmd", "backendtest", true},
		{"cmd", "bench", false},
	} {
		if got := mayImport(c.from, c.to); got != c.want {
			t.Errorf("mayImport(%s, %s) = %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// TestRootLinksNoOptionalCodec checks that JPEG 2000 and WebP are linked only into programs
// that import their codecs.
func TestRootLinksNoOptionalCodec(t *testing.T) {
	for _, name := range []string{"jpeg2000", "webp"} {
		codec := module + "/internal/imagecodec/" + name
		links := func(pkg string) bool {
			return slices.ContainsFunc(goList(t, "linux", "amd64", "", "-deps", pkg), func(p listed) bool {
				return p.ImportPath == codec
			})
		}
		if links(module) {
			t.Errorf("importing %s links %s", module, codec)
		}
		for _, pkg := range []string{module + "/imagecodec/" + name, module + "/cmd/onward", module + "/backendtest"} {
			if !links(pkg) {
				t.Errorf("importing %s does not link %s", pkg, codec)
			}
		}
	}
}

// TestCoverPullsInLittle checks the dependencies of a program that imports only the root:
// the standard library, golang.org/x/sys and protowire, which imports two small internal
// packages of its module.
func TestCoverPullsInLittle(t *testing.T) {
	allowed := []string{
		"google.golang.org/protobuf/encoding/protowire",
		"google.golang.org/protobuf/internal/errors",
		"google.golang.org/protobuf/internal/detrand",
	}
	for _, p := range platforms {
		for _, pkg := range goList(t, p.goos, p.goarch, p.tags, "-deps", module) {
			imp := pkg.ImportPath
			if pkg.Standard || inModule(imp) || imp == "golang.org/x/sys" ||
				strings.HasPrefix(imp, "golang.org/x/sys/") {
				continue
			}
			if !slices.Contains(allowed, imp) {
				t.Errorf("%s/%s %s: importing %s compiles %s", p.goos, p.goarch, p.tags, module, imp)
			}
		}
	}
}

// TestTokenizerImportsTheStandardLibrary checks that a program which imports tokenizer alone
// requires no module besides this one.
func TestTokenizerImportsTheStandardLibrary(t *testing.T) {
	for _, p := range platforms {
		for _, pkg := range goList(t, p.goos, p.goarch, p.tags, "-deps", module+"/tokenizer") {
			if !pkg.Standard && pkg.ImportPath != module+"/tokenizer" {
				t.Errorf("%s/%s %s: importing tokenizer compiles %s", p.goos, p.goarch, p.tags, pkg.ImportPath)
			}
		}
	}
}

// TestSmallBuildsOfTheCommand checks what the build tags leave out: purego, which links
// dynamically on Linux, libraries of tables, and in the core net/http.
func TestSmallBuildsOfTheCommand(t *testing.T) {
	for tag, unwanted := range map[string][]string{
		"core":   {"github.com/ebitengine/purego", "github.com/apache/arrow-go/", "google.golang.org/grpc", "net/http", "crypto/tls"},
		"server": {"github.com/ebitengine/purego", "github.com/apache/arrow-go/"},
	} {
		for _, p := range goList(t, "linux", "amd64", tag, "-deps", module+"/cmd/onward") {
			for _, u := range unwanted {
				if strings.HasPrefix(p.ImportPath, u) {
					t.Errorf("-tags %s compiles %s", tag, p.ImportPath)
				}
			}
		}
	}
}
