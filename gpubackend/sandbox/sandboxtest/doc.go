// SPDX-License-Identifier: Apache-2.0

// Package sandboxtest has what tests of filters need and Go can't say.
package sandboxtest
