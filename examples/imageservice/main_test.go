package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/onward-ml/onward/datasets"
)

func TestClassify(t *testing.T) {
	c, err := newClassifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(c)
	defer c.close()
	defer srv.Close()
	post := func(body []byte) (int, string) {
		r, err := http.Post(srv.URL, "image/png", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(b)
	}
	// Requests at the same time share runs; each gets the answer for its own image.
	blank := imageOf(t, side)
	_, alone := post(blank)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if i%2 == 0 {
				// Sums of a batch may round differently.
				code, body := post(blank)
				var a, want answer
				if err := errors.Join(json.Unmarshal([]byte(body), &a), json.Unmarshal([]byte(alone), &want)); code !=
					http.StatusOK || err != nil ||
					a.Digit != want.Digit || math.Abs(float64(a.Probability-want.Probability)) > 1e-6 {
					t.Errorf("blank image: got %d %s, want 200 %s", code, body, alone)
				}
				return
			}
			code, body := post(datasets.SampleImage())
			var a answer
			if err := json.Unmarshal([]byte(body), &a); code != http.StatusOK || err != nil ||
				a.Digit != datasets.SampleDigit || a.Probability < 0.5 {
				t.Errorf("sample image: got %d %s, want digit %d", code, body, datasets.SampleDigit)
			}
		})
	}
	wg.Wait()
	for name, body := range map[string][]byte{"no image": []byte("hello"), "wrong size": imageOf(t, 9)} {
		if code, text := post(body); code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", name, code, text)
		}
	}
	if _, text := post(imageOf(t, 9)); !strings.Contains(text, "9×9") {
		t.Errorf("the error does not say the size: %s", text)
	}
}

// TestFullBatch answers more requests at once than a batch holds.
func TestFullBatch(t *testing.T) {
	c, err := newClassifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pixels, err := decode(bytes.NewReader(datasets.SampleImage()))
	if err != nil {
		t.Fatal(err)
	}
	var answers []chan answer
	for range 3 * maxBatch {
		r := request{ctx: t.Context(), pixels: pixels, answer: make(chan answer, 1)}
		answers = append(answers, r.answer)
		c.queue <- r
	}
	for i, ch := range answers {
		if a := <-ch; a.err != nil || a.Digit != datasets.SampleDigit {
			t.Errorf("answer %d: got %+v", i, a)
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func imageOf(t *testing.T, n int) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, n, n))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
