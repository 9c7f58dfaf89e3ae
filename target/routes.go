package target

import (
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// route is one page of the admin listener; an element * of the path matches any
// one name. Several methods of one path are
// several routes; GET answers HEAD too.
type route struct {
	method, path string
	serve        func(ctx *fasthttp.RequestCtx)
}

// routes lists the pages of the admin listener, in the order in which they are
// named to a caller who asks for another one.
func (t *Target) routes() []route {
	return slices.Concat(
		t.ledgerRoutes(),
		t.serviceRoutes(),
		t.commandRoutes(),
	)
}

// router answers requests at the admin listener by its routes.
type router struct {
	routes []route
	known  string // "GET /ledger, GET /service, …"
}

func newRouter(routes []route) *router {
	names := make([]string, len(routes))
	for i, r := range routes {
		names[i] = r.method + " " + r.path
	}
	return &router{routes: routes, known: strings.Join(names, ", ")}
}

// serve answers one request. Whoever can make a browser of this machine send a
// request here must neither read nor change anything: see foreign.
func (r *router) serve(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	if why := foreign(ctx); why != "" {
		fail(ctx, fasthttp.StatusForbidden, why)
		return
	}
	asked, method := string(ctx.Path()), string(ctx.Method())
	var allow []string
	for i := range r.routes {
		to := &r.routes[i]
		if ok, _ := path.Match(to.path, asked); !ok {
			continue
		}
		if to.method == method || to.method == "GET" && method == "HEAD" {
			to.serve(ctx)
			return
		}
		allow = append(allow, to.method)
	}
	if allow == nil {
		fail(ctx, fasthttp.StatusNotFound, "no such page, want one of "+r.known)
		return
	}
	ctx.Response.Header.Set("Allow", strings.Join(allow, ", "))
	fail(ctx, fasthttp.StatusMethodNotAllowed, asked+" takes "+strings.Join(allow, " or "))
}

// fail answers with one line of text.
func fail(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text + "\n")
}

// foreign says why a request looks as if a page of another site had sent it
// through a browser; "" when it does not. A name other than localhost in Host
// may be one that was bound to 127.0.0.1 to get around the browser's rule of
// same origin (DNS rebinding). Origin and Sec-Fetch-Site are what browsers say
// of the page that asks (Fetch Standard; W3C Fetch Metadata); other clients send
// neither.
func foreign(ctx *fasthttp.RequestCtx) string {
	host := string(ctx.Request.Header.Host())
	if host != "" && !local(host) {
		return "Host is not an address of this machine's loopback interface, want 127.0.0.1, [::1] or localhost"
	}
	switch string(ctx.Request.Header.Peek("Sec-Fetch-Site")) {
	case "", "same-origin", "none":
	default:
		return "the request comes from a page of another site"
	}
	origin := string(ctx.Request.Header.Peek("Origin"))
	if origin != "" && origin != "http://"+host {
		return "the request comes from a page of another origin"
	}
	return ""
}

// local reports whether the value of Host names the loopback interface.
func local(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.IsLoopback()
}
