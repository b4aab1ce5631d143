package tensor

import "github.com/onward-ml/onward/internal/fail"

// Maps returns the maps of a value as Go maps: of a map one, of a sequence of maps, such as the
// probabilities of a classifier of ONNX-ML, one for each item. It fails if the value is another, or
// if K or V is not the Go type of its keys or values.
func Maps[K int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | string,
	V Element](v Value) ([]map[K]V, error) {
	items := []Value{v}
	if s, ok := v.(*Sequence); ok && s != nil {
		items = s.Items
	}
	r := make([]map[K]V, len(items))
	for i, item := range items {
		m, ok := item.(*Map)
		if !ok || m == nil {
			return nil, fail.Errorf("tensor: item %d is %s, want a map", i, typeName(item))
		}
		keys, err := Data[K](m.Keys)
		if err != nil {
			return nil, fail.Errorf("keys of map %d: %w", i, err)
		}
		values, err := Data[V](m.Values)
		if err != nil {
			return nil, fail.Errorf("values of map %d: %w", i, err)
		}
		if len(keys) != len(values) {
			return nil, fail.Errorf("tensor: map %d has %d keys and %d values", i, len(keys), len(values))
		}
		r[i] = make(map[K]V, len(keys))
		for k, key := range keys {
			r[i][key] = values[k]
		}
	}
	return r, nil
}
