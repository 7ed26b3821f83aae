// SPDX-License-Identifier: Apache-2.0

package ptx

import (
	"reflect"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/ptxlex"
)

// tokens reads the tokens of a text one after the other; the current one and the next are known.
// After an error there are no more tokens, whether the text is wrong or there is no memory for what
// it describes.
type tokens struct {
	lexer *ptxlex.Lexer
	at    [2]ptxlex.Token
	err   error // an *Error, or budget.ErrExceeded

	mem             *budget.Account
	passing, bodies uint64 // of what was taken: until the end of Parse, and for functions' bodies
}

func newTokens(text string, mem *budget.Account) tokens {
	t := tokens{lexer: ptxlex.New(text), mem: mem}
	t.skip()
	t.skip()
	return t
}

// peek is the current token.
func (t *tokens) peek() ptxlex.Token { return t.at[0] }

// peekNext is the token after it.
func (t *tokens) peekNext() ptxlex.Token { return t.at[1] }

// skip moves on by one token.
func (t *tokens) skip() {
	t.at[0] = t.at[1]
	if t.err != nil {
		t.at[1] = ptxlex.Token{Line: t.at[1].Line}
		return
	}
	next, err := t.lexer.Next()
	if err != nil {
		t.err = err
		next = ptxlex.Token{Line: t.at[1].Line}
	}
	t.at[1] = next
}

// next returns the current token and moves on.
func (t *tokens) next() ptxlex.Token {
	now := t.at[0]
	t.skip()
	return now
}

// take counts what is about to be made. When there is no more memory the text ends, and so does the
// parser.
func (t *tokens) take(bytes uint64) {
	if t.err != nil {
		return
	}
	if err := t.mem.Take(bytes); err != nil {
		t.err = err
		t.at = [2]ptxlex.Token{{Line: t.at[0].Line}, {Line: t.at[0].Line}}
	}
}

// takePassing is take for what is no longer needed when the text has been read.
func (t *tokens) takePassing(bytes uint64) {
	t.take(bytes)
	t.passing += bytes
}

// takeBody is take for what a function's body consists of.
func (t *tokens) takeBody(bytes uint64) {
	t.take(bytes)
	t.bodies += bytes
}

// What each thing counts for. Lists double as they grow, so their elements count twice; a map's
// entries take some 100 bytes beside what they hold.
var (
	instBytes      = 2 * sizeOf[Inst]()
	wordBytes      = 2 * sizeOf[string]()
	operandBytes   = 2 * sizeOf[Operand]()
	targetBytes    = 2 * sizeOf[int]()
	callBytes      = sizeOf[Call]()
	registerBytes  = 2 * sizeOf[Register]()
	variableBytes  = sizeOf[Variable]() + mapBytes
	relocBytes     = 2 * sizeOf[Reloc]()
	parameterBytes = 2 * sizeOf[Parameter]()
	functionBytes  = sizeOf[Function]() + mapBytes
	symbolBytes    = sizeOf[symbol]() + mapBytes
	scopeBytes     = sizeOf[scope]() + 4*mapBytes
	fixupBytes     = 2 * sizeOf[fixup]()
)

const mapBytes = 100

func sizeOf[T any]() uint64 { return uint64(reflect.TypeFor[T]().Size()) }
