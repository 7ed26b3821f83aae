// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// lexeme is a token and where it is in the text.
type lexeme struct {
	ptxlex.Token
	start, end int
}

// scanner walks over the tokens of a text and knows those around the current one.
type scanner struct {
	lexer  *ptxlex.Lexer
	before [3]lexeme // the last first
	at     lexeme
	next   lexeme
	err    error // of the lexer; everything is EOF then
}

func newScanner(text string) *scanner {
	s := &scanner{lexer: ptxlex.New(text)}
	s.step()
	s.step()
	s.before = [3]lexeme{}
	return s
}

// step moves on by one token.
func (s *scanner) step() {
	s.before[2], s.before[1], s.before[0] = s.before[1], s.before[0], s.at
	s.at, s.next = s.next, lexeme{}
	if s.err != nil {
		return
	}
	t, err := s.lexer.Next()
	if err != nil {
		s.err = err
		return
	}
	end := s.lexer.End()
	start := end - len(t.Text)
	if t.Kind == ptxlex.Dot {
		start--
	}
	s.next = lexeme{t, start, end}
}

// ended tells whether there is no further token.
func (s *scanner) ended() bool { return s.at.Kind == ptxlex.EOF }

// isDot tells whether the current token is one of the directives.
func (s *scanner) isDot(words ...string) bool {
	for _, w := range words {
		if s.at.Kind == ptxlex.Dot && s.at.Text == w {
			return true
		}
	}
	return false
}

// accept moves past a character if it is the current token.
func (s *scanner) accept(punct string) bool {
	if !s.at.Is(punct) {
		return false
	}
	s.step()
	return true
}

// errorf refuses the text at the current token, or says what the lexer refused.
func (s *scanner) errorf(format string, args ...any) error {
	if s.err != nil {
		return fmt.Errorf("%w: %w", s.err, ErrUnsupported)
	}
	return fmt.Errorf("ptx line %d: %s: %w", s.at.Line, fmt.Sprintf(format, args...),
		ErrUnsupported)
}

// offset moves past the second part of a sum, such as "+8" or "-4", if there is one.
func (s *scanner) offset() (uint64, error) {
	if !s.at.Is("+") && !s.at.Is("-") {
		return 0, nil
	}
	minus := false
	for s.at.Is("+") || s.at.Is("-") {
		minus = minus != s.at.Is("-")
		s.step()
	}
	if s.at.Kind != ptxlex.Int {
		return 0, s.errorf("number expected, got %q", s.at.Token)
	}
	value := s.at.Value
	if minus {
		value = -value
	}
	s.step()
	return value, nil
}
