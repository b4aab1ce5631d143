// Package tokenizer converts text to the token ids of a model and back, in pure Go.
//
// [Open] reads a folder as Hugging Face has it, or one file: tokenizer.json, a SentencePiece
// model, vocab.txt, vocab.json with merges.txt, or a .tiktoken file.
//
// Results equal those of the Python package tokenizers 0.23.3, in ids, offsets, words, and
// decoded text. That includes its choice of Unicode versions, and what it does differently from
// SentencePiece for tokenizer.json. SentencePiece models themselves give the ids of
// SentencePiece, and .tiktoken files those of tiktoken.
//
// What is not supported is an error of Open that names it:
//
//   - BPE with dropout, which makes tokens random
//   - components without a type, other than models
//   - regular expressions beyond the subset of Oniguruma that tokenizers use: no back
//     references, no lookbehind of variable length, no (?i) beyond ASCII letters
//   - a folder with a SentencePiece model or a vocabulary alone, if the tokenizer_class in
//     tokenizer_config.json is not known
//
// Files and texts may come from anyone: sizes, nesting, and the steps of regular expressions
// are limited, and a context ends long work.
package tokenizer
