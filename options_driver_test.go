package onward

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
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
	o := SessionOptions{FreeDimensions: map[string]int64{"n": 3}, Config: map[string]string{"a": "b"}, Initializers: Values{"x": x}}
	d := o.driver()
	if !maps.Equal(d.FreeDimensions, o.FreeDimensions) || !maps.Equal(d.Config, o.Config) || d.Initializers["x"] != tensor.Value(x) {
		t.Errorf("the provider gets %+v", d)
	}
}
