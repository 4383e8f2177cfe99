// Package livetest holds the page of package live to what it promises, in a real browser. The tests are not in package live
// itself: they need Chromium, and stores on disk and in other processes.
package livetest
