// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package sleeping

// pause does nothing: this architecture has no cheap hint of that kind.
func pause() {}
