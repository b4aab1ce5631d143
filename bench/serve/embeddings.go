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
	clients := make([]*client, embeddingClients)
	for i := range clients {
		clients[i] = embeddingClient(srv.http, uint64(i))
	}
	defer closeAll(clients)
	var rates, p50, p99, ratio []float64
	for range *rounds {
		m, err := load(ctx, clients, *duration)
		if err != nil {
			return err
		}
		rates = append(rates, m.rate())
		p50, p99 = append(p50, m.quantile(0.5)/1e3), append(p99, m.quantile(0.99)/1e3)
		ratio = append(ratio, m.quantile(0.99)/m.quantile(0.5))
	}
	fmt.Fprintf(b, "\nTexts of 3 to 60 words, one per request to `/v1/embeddings` from %d clients, medians of %d "+
		"rounds: %.0f/s, p50 %.1f ms, p99 %.1f ms, %.2f times p50.\n", embeddingClients, *rounds, median(rates),
		median(p50), median(p99), median(ratio))
	return nil
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
