// SPDX-License-Identifier: Apache-2.0

package savedstate

import (
	"bytes"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
)

func sample() *State {
	return New(State{Version: 3, Generation: 7, Channels: 16, ArenaBytes: 8 << 20, Greeted: 1,
		Vouchers: 1 << 33})
}

// TestRead: a state is read as a whole, and nothing behind it.
func TestRead(t *testing.T) {
	good := sample().Encode()
	s, err := Read(bytes.NewReader(good))
	if err != nil || s.Generation != 7 || s.Vouchers != 1<<33 || s.Suits(sample()) != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	for n := range Bytes {
		if _, err := Read(bytes.NewReader(good[:n])); !errors.Is(err, ErrState) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := Read(bytes.NewReader(append(good, 0))); !errors.Is(err, ErrState) {
		t.Error("a byte too many was taken")
	}
}

// TestProgramsFollow: what is behind a state that has programs isn't read with it.
func TestProgramsFollow(t *testing.T) {
	with := sample()
	with.Programs = 1
	r := bytes.NewReader(append(with.Encode(), "record"...))
	s, err := Read(r)
	if err != nil || s.Programs != 1 || r.Len() != len("record") {
		t.Fatalf("%+v, %v, %d bytes are left", s, err, r.Len())
	}
	if err := End(r); !errors.Is(err, ErrState) {
		t.Errorf("something is left: %v", err)
	}
	if err := End(bytes.NewReader(nil)); err != nil {
		t.Error(err)
	}
	for _, change := range []func(s *State){
		func(s *State) { s.Programs = InFile + 1 },
		func(s *State) { s.Greeted = 0 }, // whose would they be?
	} {
		s := *with
		change(&s)
		if _, err := Read(bytes.NewReader(s.Encode())); !errors.Is(err, ErrState) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestSuits(t *testing.T) {
	for _, x := range []struct {
		change func(s *State)
		says   string // "" for one that suits
	}{
		{func(s *State) { s.Generation++ }, ""},
		{func(s *State) { s.Version++ }, "protocol version 4, this device 3"},
		{func(s *State) { s.Channels++ }, "channels 17, this device 16"},
		{func(s *State) { s.ArenaBytes *= 2 }, "arena size"},
		{func(s *State) { s.Greeted, s.Channels, s.Version = 0, 1, 1 }, ""},
	} {
		s := sample()
		x.change(s)
		err := s.Suits(sample())
		if (err == nil) != (x.says == "") ||
			err != nil && (!errors.Is(err, ErrState) || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%v, want %q", err, x.says)
		}
	}
}

// FuzzState: only what was saved is read, and reads as it was saved.
func FuzzState(f *testing.F) {
	f.Add(sample().Encode())
	f.Add([]byte("paracuda"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Read(bytes.NewReader(b))
		if err != nil {
			if s != nil || !errors.Is(err, ErrState) {
				t.Errorf("%+v, %v", s, err)
			}
			return
		}
		sum := s.Sum
		nothing := s.Programs == 0 && s.Objects == 0
		if !bytes.Equal(s.Encode(), b[:Bytes]) || nothing && len(b) > Bytes ||
			sum != crc32.ChecksumIEEE(b[:Bytes-4]) {
			t.Errorf("% x reads as %+v", b, s)
		}
	})
}

// TestInFile: what is said of a file is read as a whole, with nothing behind it.
func TestInFile(t *testing.T) {
	good := EncodeFile([]byte("file"))
	if b, err := ReadFile(bytes.NewReader(good), 4); err != nil || string(b) != "file" {
		t.Fatalf("%q, %v", b, err)
	}
	for n := range good {
		if _, err := ReadFile(bytes.NewReader(good[:n]), 4); !errors.Is(err, ErrState) {
			t.Errorf("%d bytes: %v", n, err)
		}
		bad := bytes.Clone(good)
		bad[n] ^= 1
		if _, err := ReadFile(bytes.NewReader(bad), 4); !errors.Is(err, ErrState) {
			t.Errorf("byte %d is another: %v", n, err)
		}
	}
	if _, err := ReadFile(bytes.NewReader(append(good, 0)), 4); !errors.Is(err, ErrState) {
		t.Error("a byte too many was taken")
	}
	if _, err := ReadFile(bytes.NewReader(good), 3); !errors.Is(err, ErrState) {
		t.Error("more was taken than is allowed")
	}
}
