package goengine

import (
	"reflect"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// TestSharedEnginesHaveEqualOptions sets each option alone: sessions share no engine if they differ
// in an option that the engine reads.
func TestSharedEnginesHaveEqualOptions(t *testing.T) {
	unread := map[string]bool{
		"InterOpThreads": true, "ExecutionMode": true, "ExecutionOrder": true, "DisableMemoryArena": true,
		"EnableProfiling": true, "ProfilePrefix": true, "CustomKernels": true, // for native libraries
		"Logger": true, "LogID": true, "LogSeverity": true, "LogVerbosity": true,
		"PrepackedWeights": true, // holds the engines
	}
	m := &driver.Model{Model: new(onnx.Model), Hash: "hash"}
	key := func(o driver.Options) string {
		o.PrepackedWeights = new(driver.PrepackedWeights)
		return shareKey("cpu", m, &o)
	}
	plain := key(driver.Options{})
	fields := reflect.TypeFor[driver.Options]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		var o driver.Options
		v := reflect.ValueOf(&o).Elem().Field(i)
		set(v)
		if v.IsZero() && !unread[f.Name] {
			t.Errorf("%s: the test cannot set a %s", f.Name, f.Type)
		}
		if equal := key(o) == plain; equal && !unread[f.Name] {
			t.Errorf("sessions that differ in %s share an engine", f.Name)
		} else if !equal && unread[f.Name] {
			t.Errorf("sessions that differ in %s share no engine", f.Name)
		}
	}
}

// set sets a value that is not the zero value, if it is of a kind that options have.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			set(v.Field(i))
		}
	}
}
