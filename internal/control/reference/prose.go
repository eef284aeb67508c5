package reference

import (
	"html"
	"html/template"
	"regexp"
	"strings"
)

var (
	codeRE   = regexp.MustCompile("`([^`]*)`")
	strongRE = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose turns the little Markdown that the document uses into HTML: paragraphs, tables, code, strong. All else is text.
func prose(s string) template.HTML {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		if block = strings.TrimSpace(block); block == "" {
			continue
		}
		if strings.HasPrefix(block, "|") {
			writeTable(&b, strings.Split(block, "\n"))
		} else {
			b.WriteString("<p>" + inline(block) + "</p>\n")
		}
	}
	return template.HTML(b.String()) // every text in it went through inline
}

// line is prose within a paragraph.
func line(s string) template.HTML { return template.HTML(inline(strings.TrimSpace(s))) }

func inline(s string) string {
	s = html.EscapeString(s)
	s = strongRE.ReplaceAllString(s, "<strong>$1</strong>")
	return codeRE.ReplaceAllString(s, "<code>$1</code>")
}

func writeTable(b *strings.Builder, rows []string) {
	b.WriteString("<table>\n")
	for i, row := range rows {
		if i == 1 {
			continue // the rule between head and body
		}
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		b.WriteString("<tr>")
		for c := range strings.SplitSeq(strings.Trim(strings.TrimSpace(row), "|"), "|") {
			b.WriteString("<" + cell + ">" + inline(strings.TrimSpace(c)) + "</" + cell + ">")
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n")
}
