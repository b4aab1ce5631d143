package onward

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/tensor"
)

// This test checks that every option reaches the providers or is handled by the session.
func TestOptionsReachProviders(t *testing.T) {
	session := []string{"Providers", "DisableFallback", "FallbackOnFailure", "MapWeights", "StrictExternalData"}
	run := []string{"Outputs", "Into", "Adapters"}
	provider := []string{"CustomKernels"} // derived from other fields

	so := fillStruct(t, reflect.TypeFor[SessionOptions]()).Interface().(SessionOptions)
	carried(t, reflect.ValueOf(so), reflect.ValueOf(*so.driver()), session, provider)

	ro := fillStruct(t, reflect.TypeFor[RunOptions]()).Interface().(RunOptions)
	var d driver.RunOptions
	ro.fill(&d)
	carried(t, reflect.ValueOf(ro), reflect.ValueOf(d), run, nil)
}

// carried checks that the fields of from are in to, except for those in own, and that to
// has no other fields, except for those in extra.
func carried(t *testing.T, from, to reflect.Value, own, extra []string) {
	t.Helper()
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		f := to.FieldByName(name)
		switch has := f.IsValid(); {
		case slices.Contains(own, name) == has:
			t.Errorf("%s.%s: carried over: %v, its own: %v", from.Type().Name(), name, has, !has)
		case has && f.IsZero():
			t.Errorf("%s.%s is not carried over", from.Type().Name(), name)
		case has && f.Comparable() && f.Kind() != reflect.Pointer && !f.Equal(from.Field(i)):
			t.Errorf("%s.%s: %v became %v", from.Type().Name(), name, from.Field(i), f)
		}
	}
	for i := range to.NumField() {
		if name := to.Type().Field(i).Name; !from.FieldByName(name).IsValid() && !slices.Contains(extra, name) {
			t.Errorf("driver.%s.%s comes from nowhere", to.Type().Name(), name)
		}
	}
}

// fillStruct returns a struct with nonzero fields whose numbers are distinct.
func fillStruct(t *testing.T, typ reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Type() == reflect.TypeFor[*slog.Logger]() {
			f.Set(reflect.ValueOf(slog.Default()))
			continue
		}
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.String:
			f.SetString(typ.Field(i).Name)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Struct:
			f.Set(fillStruct(t, f.Type()))
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		default:
			t.Fatalf("field %s has type %s, which the test cannot fill", typ.Field(i).Name, f.Type())
		}
	}
	return v
}

// This test checks that the providers receive the maps of the caller with all entries.
func TestOptionsKeepMaps(t *testing.T) {
	x := tensor.Must(tensor.New([]float32{1}, 1))
	o := SessionOptions{FreeDimensions: map[string]int64{"n": 3}, Config: map[string]string{"a": "b"},
		Initializers: Values{"x": x}}
	d := o.driver()
	if !maps.Equal(d.FreeDimensions, o.FreeDimensions) || !maps.Equal(d.Config, o.Config) ||
		d.Initializers["x"] != tensor.Value(x) {
		t.Errorf("the provider gets %+v", d)
	}
}

// This test checks that docs/options.md lists every option.
func TestOptionsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("docs/options.md")
	if err != nil {
		t.Fatal(err)
	}
	session, run, ok := strings.Cut(string(doc), "## RunOptions")
	if !ok {
		t.Fatal("docs/options.md has no section on RunOptions")
	}
	for text, typ := range map[string]reflect.Type{session: reflect.TypeFor[SessionOptions](),
		run: reflect.TypeFor[RunOptions]()} {
		for i := range typ.NumField() {
			if name := typ.Field(i).Name; typ.Field(i).IsExported() && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s.%s is not in docs/options.md", typ.Name(), name)
			}
		}
	}
}

func TestGlobals(t *testing.T) {
	if s := BuildInfo(); !strings.HasPrefix(s, "Onward "+Version()+", go1") || !strings.Contains(s, "kernels ") ||
		!strings.Contains(s, "opset 2") {
		t.Errorf("build info is %q", s)
	}
	if all := AllProviders(); !slices.Contains(all, "ort:cuda") || !slices.IsSorted(all) ||
		len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("all providers are %v", all)
	}
	for _, p := range Providers() {
		if !slices.Contains(AllProviders(), p) {
			t.Errorf("%s is not among all providers", p)
		}
	}
	module := func(path, version string) debug.Module { return debug.Module{Path: path, Version: version} }
	dep := module(modulePath, "v1.2.3")
	sibling := module(modulePath, "(devel)")
	fork := module("example.org/fork", "v1.2.4")
	replaced := debug.Module{Path: modulePath, Version: "v1.2.3", Replace: &fork}
	for want, b := range map[string]*debug.BuildInfo{
		"devel":  {Main: module(modulePath, "(devel)")},
		"v0.1.0": {Main: module(modulePath, "v0.1.0")},
		"v0.2.0": {Main: module(modulePath+"/cmd/onward", "v0.2.0"), Deps: []*debug.Module{&sibling}},
		"v1.2.3": {Main: module("example.org/app", "v9.9.9"), Deps: []*debug.Module{&dep}},
		"v1.2.4": {Main: module("example.org/app", ""), Deps: []*debug.Module{&replaced}},
	} {
		if got := versionIn(b); got != want {
			t.Errorf("the version is %s, want %s", got, want)
		}
	}
}

// gpu is a provider with the traits of a GPU.
type gpu struct {
	driver.Provider
	absent error
}

func (g *gpu) Name() string                  { return "test:gpu" }
func (g *gpu) Available(driver.Config) error { return g.absent }
func (g *gpu) Traits() driver.Traits         { return driver.Traits{Device: "cuda"} }

func TestGetDevice(t *testing.T) {
	if d := GetDevice(); d != "CPU" {
		t.Skipf("this machine has a %s", d)
	}
	g := &gpu{}
	driver.Register(g)
	defer func() { g.absent = errors.New("the test is over") }() // other tests must not find the provider
	if d := GetDevice(); d != "GPU" {
		t.Errorf("the device is %s", d)
	}
}
