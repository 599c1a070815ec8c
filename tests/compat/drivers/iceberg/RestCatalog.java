import jakarta.servlet.Filter;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.util.EnumSet;
import java.util.Map;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Apache Iceberg's own implementation of a REST catalog, on loopback: PORT DATABASE WAREHOUSE [TOKEN].
 * With a token, requests without it are refused. Prints "ready" when it listens.
 */
public final class RestCatalog {
  public static void main(String[] args) throws Exception {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize(
        "rest",
        Map.of(
            "uri", "jdbc:sqlite:" + args[1],
            "jdbc.schema-version", "V1",
            "clients", "1", // SQLite has one writer
            "warehouse", args[2],
            "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"));
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(
        new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    if (args.length > 3) {
      context.addFilter(
          new FilterHolder(tokenFilter("Bearer " + args[3])), "/*", EnumSet.of(DispatcherType.REQUEST));
    }
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    connector.setPort(Integer.parseInt(args[0]));
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    System.out.println("ready");
    server.join();
  }

  private static Filter tokenFilter(String wanted) {
    return (request, response, chain) -> {
      if (wanted.equals(((HttpServletRequest) request).getHeader("Authorization"))) {
        chain.doFilter(request, response);
        return;
      }
      HttpServletResponse refused = (HttpServletResponse) response;
      refused.setStatus(401);
      refused.setContentType("application/json");
      refused
          .getWriter()
          .write(
              "{\"error\":{\"message\":\"Not authorized\",\"type\":\"NotAuthorizedException\",\"code\":401}}");
    };
  }
}
