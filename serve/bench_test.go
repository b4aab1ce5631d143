package serve

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// The benchmarks measure a request on loopback, with the client in the same process. bench/serve
// measures a server of its own.

func BenchmarkREST(b *testing.B) {
	s := one(b, scaled(b, 1))
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	head := `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}}`
	body := append([]byte(head), make([]byte, 8)...)
	transport := &http.Transport{DisableCompression: true}
	b.ReportAllocs()
	for b.Loop() {
		r, err := http.NewRequest(http.MethodPost, web.URL+"/v2/models/m/infer", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set(headerLength, strconv.Itoa(len(head)))
		resp, err := transport.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%d %s, %v", resp.StatusCode, text, err)
		}
		resp.Body.Close()
	}
}

func BenchmarkGRPC(b *testing.B) {
	s := one(b, scaled(b, 1))
	c := dial(b, s)
	m := message("m", "FP32", []int64{1, 2}, string(make([]byte, 8)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.ModelInfer(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}
