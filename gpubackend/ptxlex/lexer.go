// SPDX-License-Identifier: Apache-2.0

package ptxlex

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind says what a token is.
type Kind uint8

// Kinds of tokens.
const (
	// EOF is the end of the text.
	EOF Kind = iota
	// Word is an identifier, with its % or $.
	Word
	// Dot is a dot and the word after it; Text is the word alone.
	Dot
	// Int, Float and Float32 are numbers; Value holds their bits.
	Int
	Float
	Float32
	// String is what lies between quotation marks.
	String
	// Punct is a single character.
	Punct
)

// A Token is a piece of the text.
type Token struct {
	Kind  Kind
	Text  string
	Value uint64
	Line  int // from 1
}

func (t Token) String() string {
	if t.Kind == EOF {
		return "end of text"
	}
	if t.Kind == Dot {
		return "." + t.Text
	}
	return t.Text
}

// Is tells whether t is the given character.
func (t Token) Is(punct string) bool { return t.Kind == Punct && t.Text == punct }

// Error says where the text isn't PTX.
type Error struct {
	Line int
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("ptx line %d: %s", e.Line, e.Msg) }

// A Lexer cuts PTX text into tokens.
type Lexer struct {
	text string
	pos  int
	line int
}

// New returns a lexer at the start of text.
func New(text string) *Lexer { return &Lexer{text: text, line: 1} }

// End is the offset after the last token in bytes.
func (lx *Lexer) End() int { return lx.pos }

func (lx *Lexer) errorf(format string, args ...any) error {
	return &Error{Line: lx.line, Msg: fmt.Sprintf(format, args...)}
}

// skipSpace moves past white space and comments.
func (lx *Lexer) skipSpace() error {
	for lx.pos < len(lx.text) {
		rest := lx.text[lx.pos:]
		switch {
		case rest[0] == '\n':
			lx.line++
			lx.pos++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\f' ||
			rest[0] == '\v':
			lx.pos++
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			lx.pos += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return lx.errorf("the comment has no end")
			}
			lx.line += strings.Count(rest[:end+4], "\n")
			lx.pos += end + 4
		default:
			return nil
		}
	}
	return nil
}

// maxToken bounds a token's length, and so the messages that quote it. Names made from templates
// have tens of thousands of characters.
const maxToken = 1 << 20

// Next returns the next token. The error is an *Error.
func (lx *Lexer) Next() (Token, error) {
	t, err := lx.token()
	if len(t.Text) > maxToken {
		return Token{}, lx.errorf("a token of %d characters, which is too long", len(t.Text))
	}
	return t, err
}

func (lx *Lexer) token() (Token, error) {
	if err := lx.skipSpace(); err != nil {
		return Token{}, err
	}
	if lx.pos >= len(lx.text) {
		return Token{Kind: EOF, Line: lx.line}, nil
	}
	c := lx.text[lx.pos]
	switch {
	case isWordStart(c):
		return lx.word(Word, lx.pos), nil
	case c == '.' && lx.pos+1 < len(lx.text) && isWordPart(lx.text[lx.pos+1]):
		return lx.dotWord(), nil
	case c >= '0' && c <= '9':
		return lx.number()
	case c == '"':
		return lx.str()
	}
	lx.pos++
	return Token{Kind: Punct, Text: lx.text[lx.pos-1 : lx.pos], Line: lx.line}, nil
}

func (lx *Lexer) word(kind Kind, start int) Token {
	lx.pos = start + 1
	for lx.pos < len(lx.text) && isWordPart(lx.text[lx.pos]) {
		lx.pos++
	}
	return Token{Kind: kind, Text: lx.text[start:lx.pos], Line: lx.line}
}

// dotWord takes a word after a dot, in which "::" may occur as in
// ".shared::cta".
func (lx *Lexer) dotWord() Token {
	start := lx.pos + 1
	lx.pos = start
	for lx.pos < len(lx.text) {
		rest := lx.text[lx.pos:]
		if isWordPart(rest[0]) {
			lx.pos++
		} else if len(rest) > 2 && rest[:2] == "::" && isWordPart(rest[2]) {
			lx.pos += 2
		} else {
			break
		}
	}
	return Token{Kind: Dot, Text: lx.text[start:lx.pos], Line: lx.line}
}

func (lx *Lexer) str() (Token, error) {
	start := lx.pos + 1
	for i := start; i < len(lx.text); i++ {
		switch lx.text[i] {
		case '\\':
			i++ // a quotation mark there doesn't end the string
		case '"':
			lx.pos = i + 1
			lx.line += strings.Count(lx.text[start:i], "\n")
			return Token{Kind: String, Text: lx.text[start:i], Line: lx.line}, nil
		}
	}
	return Token{}, lx.errorf("the string has no end")
}

// number takes an integer (decimal, octal, 0x, 0b), a 0f or 0d constant given
// by its bits, or a decimal floating-point number.
func (lx *Lexer) number() (Token, error) {
	start := lx.pos
	for lx.pos < len(lx.text) && isWordPart(lx.text[lx.pos]) {
		lx.pos++
	}
	text := lx.text[start:lx.pos]
	if len(text) > maxToken {
		return Token{Text: text}, nil
	}
	if len(text) > 1 && text[0] == '0' {
		switch text[1] {
		case 'f', 'F':
			return lx.bits(text, Float32, 8)
		case 'd', 'D':
			return lx.bits(text, Float, 16)
		}
	}
	if decimal := strings.TrimLeft(text, "0123456789"); decimal == "" || decimal[0] == 'e' ||
		decimal[0] == 'E' {
		if float, ok := lx.decimalFloat(start); ok {
			return float, nil
		}
	}
	digits := strings.TrimSuffix(strings.TrimSuffix(text, "U"), "u")
	value, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.Contains(digits, "_") {
		return Token{}, lx.errorf("number %q", text)
	}
	return Token{Kind: Int, Text: text, Value: value, Line: lx.line}, nil
}

func (lx *Lexer) bits(text string, kind Kind, digits int) (Token, error) {
	value, err := strconv.ParseUint(text[2:], 16, 64)
	if err != nil || len(text) != 2+digits {
		return Token{}, lx.errorf("wrong floating-point constant %q", text)
	}
	return Token{Kind: kind, Text: text, Value: value, Line: lx.line}, nil
}

// decimalFloat takes numbers such as 1.5 and 1e-3 that start at start.
func (lx *Lexer) decimalFloat(start int) (Token, bool) {
	end := start
	for end < len(lx.text) &&
		(isDigit(lx.text[end]) || strings.IndexByte(".eE", lx.text[end]) >= 0 ||
			strings.IndexByte("+-", lx.text[end]) >= 0 &&
				strings.IndexByte("eE", lx.text[end-1]) >= 0) {
		end++
	}
	text := lx.text[start:end]
	if !strings.ContainsAny(text, ".eE") || len(text) > maxToken {
		return Token{}, false
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Token{}, false
	}
	lx.pos = end
	return Token{Kind: Float, Text: text, Value: math.Float64bits(value), Line: lx.line}, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%'
}

func isWordPart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || isDigit(c)
}
