// Package docstest runs what the documents print: SQL, commands and what they answer. No program imports it.
package docstest
