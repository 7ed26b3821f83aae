// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// scope stands for a test where none runs, in the programs, and for a part of one: for the packages
// with the two neighbours of a vhost-user session.
type scope struct {
	testing.TB // none: only the methods below are used

	mu    sync.Mutex
	errs  []error
	after []func()
}

// within calls do, and then what is to be done at the scope's end. It returns what has failed.
func within(do func(tb testing.TB)) error {
	s := &scope{}
	done := make(chan struct{})
	go func() { // a goroutine of its own, since FailNow ends it
		defer close(done)
		defer func() {
			if what := recover(); what != nil {
				s.Errorf("panic: %v", what)
			}
		}()
		do(s)
	}()
	<-done
	for i := len(s.after) - 1; i >= 0; i-- {
		s.after[i]()
	}
	return errors.Join(s.errs...)
}

// Helper does nothing: errors have no line numbers.
func (s *scope) Helper() {}

// Cleanup has something done at the end.
func (s *scope) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = append(s.after, f)
}

// Errorf notes a failure.
func (s *scope) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// Error notes a failure.
func (s *scope) Error(args ...any) { s.Errorf("%s", fmt.Sprint(args...)) }

// FailNow ends what is done in the scope.
func (s *scope) FailNow() { runtime.Goexit() }

// Fatalf notes a failure and ends what is done in the scope.
func (s *scope) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	s.FailNow()
}

// Fatal is Fatalf with Error's arguments.
func (s *scope) Fatal(args ...any) {
	s.Error(args...)
	s.FailNow()
}

// Failed says whether something has failed.
func (s *scope) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}
