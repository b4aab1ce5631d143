package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
)

// embeddingClients is the number of clients of /v1/embeddings.
const embeddingClients = 16

// embeddings measures /v1/embeddings of a model folder: requests of one text of 3 to 60 words.
func embeddings(ctx context.Context, b *strings.Builder, exe string, _ []*model) error {
	if *folder == "" {
		return nil
	}
	srv, err := startOnward(ctx, exe, *folder)
	if err != nil {
		return err
	}
	defer srv.stop()
	servers := []*embedder{newEmbedder("onward serve", srv.http)}
	if *beside != "" {
		servers = append(servers, newEmbedder("the other server", *beside))
	}
	for range *rounds {
		for _, e := range servers {
			m, err := load(ctx, e.clients, *duration)
			if err != nil {
				return err
			}
			e.rates = append(e.rates, m.rate())
			e.p50, e.p99 = append(e.p50, m.quantile(0.5)/1e3), append(e.p99, m.quantile(0.99)/1e3)
			e.ratio = append(e.ratio, m.quantile(0.99)/m.quantile(0.5))
		}
	}
	fmt.Fprintf(b, "\nTexts of 3 to 60 words, one per request to `/v1/embeddings` from %d clients, medians of %d "+
		"rounds:\n\n", embeddingClients, *rounds)
	for _, e := range servers {
		closeAll(e.clients)
		fmt.Fprintf(b, "- %s: %.0f/s, p50 %.1f ms, p99 %.1f ms, %.2f times p50\n", e.name, median(e.rates),
			median(e.p50), median(e.p99), median(e.ratio))
	}
	return nil
}

// embedder is a server, with its clients and what they measured in each round.
type embedder struct {
	name                   string
	clients                []*client
	rates, p50, p99, ratio []float64
}

func newEmbedder(name, address string) *embedder {
	e := &embedder{name: name}
	for i := range embeddingClients {
		e.clients = append(e.clients, embeddingClient(address, uint64(i)))
	}
	return e
}

// embeddingClient sends texts that the seed selects.
func embeddingClient(address string, seed uint64) *client {
	words := strings.Fields(`the station is near a river and old houses where people meet to talk about music, food
		and work`)
	r := rand.New(rand.NewPCG(seed, 1))
	transport := &http.Transport{DisableCompression: true}
	return &client{
		infer: func(ctx context.Context) error {
			text := make([]string, 3+r.IntN(58))
			for i := range text {
				text[i] = words[r.IntN(len(words))]
			}
			body, err := json.Marshal(map[string]string{"input": strings.Join(text, " "),
				"encoding_format": "base64"})
			if err != nil {
				return err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/embeddings",
				bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s: %s", resp.Status, answer)
			}
			return err
		},
		close: transport.CloseIdleConnections,
	}
}
