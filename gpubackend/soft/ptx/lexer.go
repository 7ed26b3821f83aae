// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tokenKind says what a token is.
type tokenKind uint8

const (
	tokEOF tokenKind = iota
	// tokWord is an identifier, with its % or $.
	tokWord
	// tokDot is a dot and the word behind it; text is the word alone.
	tokDot
	// tokInt, tokFloat and tokFloat32 are numbers; value holds their bits.
	tokInt
	tokFloat
	tokFloat32
	tokString
	// tokPunct is a single character.
	tokPunct
)

type token struct {
	kind  tokenKind
	text  string
	value uint64
	line  int
}

func (t token) String() string {
	if t.kind == tokEOF {
		return "end of text"
	}
	if t.kind == tokDot {
		return "." + t.text
	}
	return t.text
}

// lexer cuts PTX text into tokens.
type lexer struct {
	text string
	pos  int
	line int
}

// tokenize returns all tokens of text; the last one is tokEOF.
func tokenize(text string) ([]token, error) {
	lx := &lexer{text: text, line: 1}
	tokens := make([]token, 0, len(text)/4+1)
	for {
		t, err := lx.next()
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		if t.kind == tokEOF {
			return tokens, nil
		}
	}
}

func (lx *lexer) errorf(format string, args ...any) error {
	return &Error{Line: lx.line, Msg: fmt.Sprintf(format, args...)}
}

// skipSpace moves over white space and comments.
func (lx *lexer) skipSpace() error {
	for lx.pos < len(lx.text) {
		rest := lx.text[lx.pos:]
		switch {
		case rest[0] == '\n':
			lx.line++
			lx.pos++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\f' || rest[0] == '\v':
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
				return lx.errorf("comment without end")
			}
			lx.line += strings.Count(rest[:end+4], "\n")
			lx.pos += end + 4
		default:
			return nil
		}
	}
	return nil
}

func (lx *lexer) next() (token, error) {
	if err := lx.skipSpace(); err != nil {
		return token{}, err
	}
	if lx.pos >= len(lx.text) {
		return token{kind: tokEOF, line: lx.line}, nil
	}
	c := lx.text[lx.pos]
	switch {
	case isWordStart(c):
		return lx.word(tokWord, lx.pos), nil
	case c == '.' && lx.pos+1 < len(lx.text) && isWordPart(lx.text[lx.pos+1]):
		return lx.dotWord(), nil
	case c >= '0' && c <= '9':
		return lx.number()
	case c == '"':
		return lx.str()
	}
	lx.pos++
	return token{kind: tokPunct, text: lx.text[lx.pos-1 : lx.pos], line: lx.line}, nil
}

func (lx *lexer) word(kind tokenKind, start int) token {
	lx.pos = start + 1
	for lx.pos < len(lx.text) && isWordPart(lx.text[lx.pos]) {
		lx.pos++
	}
	return token{kind: kind, text: lx.text[start:lx.pos], line: lx.line}
}

// dotWord takes a word after a dot, in which "::" may occur as in
// ".shared::cta".
func (lx *lexer) dotWord() token {
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
	return token{kind: tokDot, text: lx.text[start:lx.pos], line: lx.line}
}

func (lx *lexer) str() (token, error) {
	start := lx.pos + 1
	for i := start; i < len(lx.text); i++ {
		switch lx.text[i] {
		case '\\':
			i++
		case '\n':
			lx.line++
		case '"':
			lx.pos = i + 1
			return token{kind: tokString, text: lx.text[start:i], line: lx.line}, nil
		}
	}
	return token{}, lx.errorf("string without end")
}

// number takes an integer (decimal, octal, 0x, 0b), a 0f or 0d constant given
// by its bits, or a decimal floating-point number.
func (lx *lexer) number() (token, error) {
	start := lx.pos
	for lx.pos < len(lx.text) && isWordPart(lx.text[lx.pos]) {
		lx.pos++
	}
	text := lx.text[start:lx.pos]
	if len(text) > 1 && text[0] == '0' {
		switch text[1] {
		case 'f', 'F':
			return lx.bits(text, tokFloat32, 8)
		case 'd', 'D':
			return lx.bits(text, tokFloat, 16)
		}
	}
	if decimal := strings.TrimLeft(text, "0123456789"); decimal == "" || decimal[0] == 'e' || decimal[0] == 'E' {
		if float, ok := lx.decimalFloat(start); ok {
			return float, nil
		}
	}
	digits := strings.TrimSuffix(strings.TrimSuffix(text, "U"), "u")
	value, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.Contains(digits, "_") {
		return token{}, lx.errorf("number %q", text)
	}
	return token{kind: tokInt, text: text, value: value, line: lx.line}, nil
}

func (lx *lexer) bits(text string, kind tokenKind, digits int) (token, error) {
	value, err := strconv.ParseUint(text[2:], 16, 64)
	if err != nil || len(text) != 2+digits {
		return token{}, lx.errorf("floating-point constant %q", text)
	}
	return token{kind: kind, text: text, value: value, line: lx.line}, nil
}

// decimalFloat takes numbers such as 1.5 and 1e-3 that start at start.
func (lx *lexer) decimalFloat(start int) (token, bool) {
	end := start
	for end < len(lx.text) && (isDigit(lx.text[end]) || strings.IndexByte(".eE", lx.text[end]) >= 0 ||
		strings.IndexByte("+-", lx.text[end]) >= 0 && strings.IndexByte("eE", lx.text[end-1]) >= 0) {
		end++
	}
	text := lx.text[start:end]
	if !strings.ContainsAny(text, ".eE") {
		return token{}, false
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return token{}, false
	}
	lx.pos = end
	return token{kind: tokFloat, text: text, value: math.Float64bits(value), line: lx.line}, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%'
}

func isWordPart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || isDigit(c)
}
