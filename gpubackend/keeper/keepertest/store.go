// SPDX-License-Identifier: Apache-2.0

// Package keepertest has a keeper for tests, without its process. Only tests use it.
package keepertest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Store keeps duplicates of descriptors by their numbers, as a keeper does. It owns them until
// Close.
type Store map[uint32]int

// KeepOwn keeps a duplicate of fd, in place of what it kept under that number.
func (s Store) KeepOwn(number uint32, fd int) error {
	again, err := duplicate(fd)
	if err != nil {
		return err
	}
	_ = s.DropOwn(number)
	s[number] = again
	return nil
}

// DropOwn drops what is kept under a number. It isn't an error if there is nothing.
func (s Store) DropOwn(number uint32) error {
	if fd, is := s[number]; is {
		_ = unix.Close(fd)
		delete(s, number)
	}
	return nil
}

// Given returns what the next process gets and owns.
func (s Store) Given(tb testing.TB) map[uint32]int {
	tb.Helper()
	left := map[uint32]int{}
	for number, fd := range s {
		again, err := duplicate(fd)
		if err != nil {
			tb.Fatal(err)
		}
		left[number] = again
	}
	return left
}

// Close drops everything.
func (s Store) Close() {
	for number := range s {
		_ = s.DropOwn(number)
	}
}

func duplicate(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}
