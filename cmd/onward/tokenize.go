//go:build !core

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/tokenizer"
)

// tokenizeJSON is the output of --json for a text.
type tokenizeJSON struct {
	Text      string   `json:"text"`
	IDs       []int64  `json:"ids"`
	Tokens    []string `json:"tokens"`
	TypeIDs   []int64  `json:"type_ids"`
	Mask      []int64  `json:"attention_mask"`
	Special   []bool   `json:"special"`
	Words     []int32  `json:"words"`
	Sequences []int8   `json:"sequences"`
	Offsets   [][2]int `json:"offsets"`
	Overflow  int      `json:"overflow"` // windows that truncation cut off
}

// decodeJSON is the output of --decode --json for a list of ids.
type decodeJSON struct {
	IDs  []int64 `json:"ids"`
	Text string  `json:"text"`
}

func init() { large = append(large, tokenizeCommand) }

func tokenizeCommand() *cobra.Command {
	var asJSON, decode, skip, whole bool
	c := &cobra.Command{
		Use:   "tokenize FOLDER [TEXT...]",
		Short: "Convert texts to token ids, or ids to text",
		Long: `Convert texts to token ids with the tokenizer of a model folder, or ids to text with --decode.
FOLDER is a folder as Hugging Face has it, or one file: tokenizer.json, a SentencePiece model,
vocab.txt, vocab.json beside merges.txt, or a .tiktoken file. Without TEXT, each line of the
standard input is one.

Each token is printed with its id and its offsets in the text, in bytes.`,
		Example: "  onward tokenize all-MiniLM-L6-v2 \"a cat\"\n" +
			"  onward tokenize all-MiniLM-L6-v2 --json <texts.txt\n" +
			"  onward tokenize all-MiniLM-L6-v2 --decode \"101 1037 4937 102\"",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tok, err := tokenizer.Open(args[0],
				&tokenizer.Options{NoSpecialTokens: skip && !decode, NoTruncation: whole, NoPadding: whole})
			if err != nil {
				return err
			}
			show := func(s string) error { return encodeText(cmd.Context(), cmd.OutOrStdout(), tok, s, asJSON) }
			if decode {
				show = func(s string) error { return decodeIDs(cmd.OutOrStdout(), tok, s, skip, asJSON) }
			}
			if len(args) > 1 {
				for _, s := range args[1:] {
					if err := show(s); err != nil {
						return err
					}
				}
				return nil
			}
			return eachLine(cmd.InOrStdin(), show)
		},
	}
	c.Flags().BoolVar(&decode, "decode", false, "TEXT is a list of ids; print their text")
	c.Flags().BoolVar(&skip, "no-special", false, "leave out special tokens")
	c.Flags().BoolVar(&whole, "whole", false, "neither truncate nor pad, whatever the tokenizer's file says")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// maxLine is the limit of the length of a line of the standard input.
const maxLine = 64 << 20

// eachLine calls f for each line, without its end.
func eachLine(r io.Reader, f func(s string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := f(lines.Text()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line of the standard input exceeds %d bytes", maxLine)
	}
	return lines.Err()
}

func encodeText(ctx context.Context, w io.Writer, tok *tokenizer.Tokenizer, s string, asJSON bool) error {
	e, err := tok.EncodeContext(ctx, s)
	if err != nil {
		return err
	}
	if asJSON {
		return text.JSON(w,
			tokenizeJSON{Text: s, IDs: e.IDs, Tokens: e.Tokens, TypeIDs: e.TypeIDs, Mask: e.Mask, Special: e.Special,
				Words: e.Words, Sequences: e.Sequences, Offsets: e.Offsets, Overflow: len(e.Overflow)})
	}
	for i, id := range e.IDs {
		where := "special"
		if !e.Special[i] {
			where = fmt.Sprintf("%d-%d", e.Offsets[i][0], e.Offsets[i][1])
		}
		fmt.Fprintf(w, "%7d  %-9s  %s\n", id, where, text.Name(e.Tokens[i]))
	}
	if n := len(e.Overflow); n > 0 {
		fmt.Fprintf(w, "truncated: %d more window(s)\n", n)
	}
	_, err = fmt.Fprintln(w)
	return err
}

func decodeIDs(w io.Writer, tok *tokenizer.Tokenizer, s string, skip, asJSON bool) error {
	ids := []int64{}
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" ,[]\t", r) }) {
		id, err := strconv.ParseInt(f, 10, 32)
		if err != nil {
			return cli.UsageError{Err: fmt.Errorf("%q is not a token id", f)}
		}
		if _, ok := tok.TokenOf(id); !ok {
			return fmt.Errorf("id %d is not in the vocabulary", id)
		}
		ids = append(ids, id)
	}
	decoded, err := tok.Decode(ids, skip)
	if err != nil {
		return err
	}
	if asJSON {
		return text.JSON(w, decodeJSON{ids, decoded})
	}
	_, err = fmt.Fprintln(w, text.Escape(decoded))
	return err
}
