package edit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onward-ml/onward/onnx"
)

// KeyValue is an entry of a model's metadata.
type KeyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Fields are the keys of metadata that are fields of a model. Other keys are those of
// metadata_props.
var Fields = []string{"producer_name", "producer_version", "domain", "model_version", "doc_string", "graph.name",
	"graph.doc_string"}

// field returns a pointer to the string field of a model that a key names, nil for other keys.
func field(m *onnx.Model, key string) *string {
	switch key {
	case "producer_name":
		return &m.ProducerName
	case "producer_version":
		return &m.ProducerVersion
	case "domain":
		return &m.Domain
	case "doc_string":
		return &m.DocString
	case "graph.name":
		return &m.Graph.Name
	case "graph.doc_string":
		return &m.Graph.DocString
	}
	return nil
}

// Metadata returns the fields of a model that are set, and its metadata_props.
func Metadata(m *onnx.Model) []KeyValue {
	r := []KeyValue{}
	for _, key := range Fields {
		if f := field(m, key); f != nil && *f != "" {
			r = append(r, KeyValue{key, *f})
		} else if key == "model_version" && m.ModelVersion != 0 {
			r = append(r, KeyValue{key, strconv.FormatInt(m.ModelVersion, 10)})
		}
	}
	for _, p := range m.MetadataProps {
		r = append(r, KeyValue{p.Key, p.Value})
	}
	return r
}

// prop removes the prefix metadata_props., with which a key names an entry of metadata_props even
// if it is also the name of a field.
func prop(key string) string { return strings.TrimPrefix(key, "metadata_props.") }

// SetMetadata returns a model with metadata set, then deleted. A key that is deleted must exist.
// With docs, the documentation of all nodes, values and graphs is removed, too.
func SetMetadata(m *onnx.Model, set []KeyValue, remove []string, docs bool) (*onnx.Model, error) {
	c := copyOf(m)
	c.MetadataProps = slices.Clone(m.MetadataProps)
	index := func(key string) int {
		return slices.IndexFunc(c.MetadataProps, func(p onnx.StringStringEntry) bool { return p.Key == prop(key) })
	}
	for _, kv := range set {
		f, i := field(c, kv.Key), index(kv.Key)
		switch {
		case kv.Key == "model_version":
			v, err := strconv.ParseInt(kv.Value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("model_version must be an integer, got %q", kv.Value)
			}
			c.ModelVersion = v
		case f != nil:
			*f = kv.Value
		case i >= 0:
			c.MetadataProps[i].Value = kv.Value
		default:
			c.MetadataProps = append(c.MetadataProps, onnx.StringStringEntry{Key: prop(kv.Key), Value: kv.Value})
		}
	}
	for _, key := range remove {
		f, i := field(c, key), index(key)
		switch {
		case key == "model_version":
			c.ModelVersion = 0
		case key == "graph.name":
			return nil, fmt.Errorf("graph.name cannot be deleted: ONNX requires it")
		case f != nil:
			*f = ""
		case i >= 0:
			c.MetadataProps = slices.Delete(c.MetadataProps, i, i+1)
		default:
			return nil, fmt.Errorf("the model has no metadata %q", prop(key))
		}
	}
	if docs {
		c.DocString = ""
		c.Graph = withoutDocs(c.Graph)
	}
	return c, nil
}

// withoutDocs returns a graph without documentation.
func withoutDocs(g *onnx.Graph) *onnx.Graph {
	c := *rename(g, Names{}) // copies nodes, values and subgraphs
	c.DocString = ""
	for _, l := range [][]*onnx.ValueInfo{c.Inputs, c.Outputs, c.ValueInfo} {
		for _, v := range l {
			v.DocString = ""
		}
	}
	for i, t := range c.Initializers {
		if t.DocString != "" {
			r := *t
			r.DocString = ""
			c.Initializers[i] = &r
		}
	}
	for _, n := range c.Nodes {
		n.DocString = ""
		for i, a := range n.Attributes {
			if a.G == nil && len(a.Graphs) == 0 {
				continue
			}
			b := *a // rename has copied the attributes
			if b.G != nil {
				b.G = withoutDocs(b.G)
			}
			for k, s := range b.Graphs {
				b.Graphs[k] = withoutDocs(s)
			}
			n.Attributes[i] = &b
		}
	}
	return &c
}
